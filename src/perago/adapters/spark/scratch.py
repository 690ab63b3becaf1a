"""The directories that processes with Spark work in, and leave behind when they are killed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from perago.domain.errors import EnvironmentUnfitError
from perago.system.directories import make_own_directory, open_own_directory
from perago.system.tags import Tag

JVM_PREFIX = "spark-"
CONNECT_PREFIX = "connect-"

SCRATCH_TAG = Tag(
    purpose="Spark's scratch space",
    advice="set PERAGO_WORKSPACE_ROOT to another directory, or move it away: an earlier version of "
    "Perago, or another program, made it",
)
"""Marks the directory in which each process with Spark has one of its own."""


def require_own_scratch(scratch: Path) -> None:
    """Raise `EnvironmentUnfitError` where the directory for such directories is not Perago's."""
    if scratch.exists():
        with suppress(OSError):  # who makes one in it tells what the system refuses
            make_own_directory(scratch.resolve(), SCRATCH_TAG).close()


def make_scratch(scratch: Path) -> None:
    """Make a process's directory, below one of Perago's own."""
    with make_own_directory(scratch.parent, SCRATCH_TAG) as own:
        own.below(scratch.name).close()


def remove_scratch(scratch: Path, name: str | None = None) -> None:
    """Remove a process's directory, or one thing in it; what cannot be removed is swept later."""
    with suppress(OSError, EnvironmentUnfitError):
        own = open_own_directory(scratch.parent, SCRATCH_TAG)
        if own is None:
            return
        with own:
            if name is None:
                own.remove_tree(scratch.name)
            elif scratch.name in own.names():
                with own.below(scratch.name) as inner:
                    inner.remove_tree(name)


def sweep_scratch(scratch: Path) -> None:
    """Remove what processes that were killed have left."""
    with suppress(OSError, EnvironmentUnfitError):
        own = open_own_directory(scratch, SCRATCH_TAG)
        if own is None:
            return
        with own:
            for name in own.names():
                pid = name.removeprefix(JVM_PREFIX).removeprefix(CONNECT_PREFIX)
                if pid != name and pid.isdecimal() and not _is_running(int(pid)):
                    with suppress(OSError):
                        own.remove_tree(name)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True

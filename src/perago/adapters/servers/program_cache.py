"""The programs that were built or fetched once, for everything that this user runs.

Invariant: a file under a program's name in the cache is a whole program of the version that its
directory names. Several processes that need it at once make it once.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from perago.adapters.file_lock import hold_file_lock
from perago.adapters.progress import Progress
from perago.adapters.servers.programs import Program
from perago.domain.errors import EnvironmentUnfitError

SCRATCH_PREFIX = ".build-"
"""Begins the names of scratch directories, which `sweep` removes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """A program that can be started."""

    program: Program
    path: Path
    version: str
    source: Literal["PATH", "cache", "build", "Maven"]

    @property
    def warning(self) -> str | None:
        """What to say about a version that nobody has tried."""
        if self.version == self.program.version:
            return None
        return (
            f"{self.path} is {self.program.title} {self.version}; "
            f"Perago is tested with {self.program.version}"
        )


def cached_path(program: Program, cache: Path) -> Path:
    """Where the cache keeps a program of its pinned version."""
    return cache / "servers" / f"{program.family}-{program.version}" / program.file_name


def fill_cache(
    program: Program,
    *,
    cache: Path,
    doing: Literal["build", "fetch"],
    progress: Progress,
    make: Callable[[Path, Path], None],
) -> Path:
    """Where the program is, after `make(scratch, target)` where it is not there yet.

    `make` puts it there in one step, from a scratch directory on the same file system.
    """
    target = cached_path(program, cache)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with hold_file_lock(
            target.parent / ".lock",
            waiting=f"another process {doing}s {program}: waiting …",
            progress=progress,
        ):
            sweep(target.parent)
            if not target.is_file():
                with tempfile.TemporaryDirectory(prefix=SCRATCH_PREFIX, dir=target.parent) as made:
                    make(Path(made), target)
    except OSError as error:
        raise EnvironmentUnfitError(
            f"cannot {doing} {program} into {target.parent}: {error.strerror}",
            hint="make the directory writable, free disk space, or choose another cache directory",
        ) from error
    return target


def sweep(directory: Path) -> None:
    """Remove the scratch directories of killed processes; the caller holds the lock."""
    for left in directory.glob(f"{SCRATCH_PREFIX}*"):
        # A compiler may be writing its last file there: what stays now goes the next time.
        shutil.rmtree(left, ignore_errors=True)

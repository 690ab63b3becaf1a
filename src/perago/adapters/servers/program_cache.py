"""The programs that were built or fetched once, for everything that this user runs.

Invariant: a file under a program's name in the cache is a whole program of the version that its
directory names. Several processes that need it at once make it once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from perago.adapters.progress import Progress
from perago.adapters.servers.programs import Program
from perago.domain.errors import EnvironmentUnfitError
from perago.system.directories import (
    make_private_directories,
    scratch_directory,
    sweep_scratch_directories,
)
from perago.system.file_lock import hold_file_lock
from perago.system.tags import Tag

SCRATCH_PREFIX = ".build-"
"""Begins the names of scratch directories, which `sweep` removes."""

SCRATCH_TAG = Tag(
    purpose="scratch space for tools",
    advice="choose another cache directory (PERAGO_CACHE_DIRECTORY)",
)


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
        make_private_directories(target.parent)
        with hold_file_lock(
            target.parent / ".lock",
            on_wait=progress.while_waiting(f"another process {doing}s {program}: waiting …"),
        ):
            sweep(target.parent)
            if not target.is_file():
                with scratch_directory(target.parent, SCRATCH_TAG, SCRATCH_PREFIX) as made:
                    make(made, target)
    except OSError as error:
        raise EnvironmentUnfitError(
            f"cannot {doing} {program} into {target.parent}: {error.strerror}",
            hint="make the directory writable, free disk space, or choose another cache directory",
        ) from error
    return target


def sweep(directory: Path) -> None:
    """Remove the scratch directories of killed processes; the caller holds the lock."""
    # A compiler may be writing its last file there: what stays now goes the next time.
    sweep_scratch_directories(directory, SCRATCH_TAG, SCRATCH_PREFIX)

"""What the disk below a directory has left, and how it takes names.

Every function takes a directory that need not exist yet: it asks where it would be made.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path


class LocalDisk:
    """The disk that a directory is on, or will be."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def folds_case(self) -> bool:
        """Whether this file system takes `A` and `a` for the same name."""
        return folds_case(self._directory)

    @property
    def free_bytes(self) -> int:
        """What an unprivileged process may still write here."""
        return free_bytes(self._directory)


def nearest_directory(place: Path) -> Path:
    """The directory itself, or the one that it would be made in."""
    return next(path for path in (place, *place.parents) if path.is_dir())


def free_bytes(place: Path) -> int:
    """What an unprivileged process may still write there."""
    return shutil.disk_usage(nearest_directory(place)).free


def folds_case(place: Path) -> bool:
    """Whether the file system takes `A` and `a` for the same name; found out by trying."""
    directory = nearest_directory(place)
    # The name is new: another process may try at the same moment.
    with tempfile.NamedTemporaryFile(prefix=".perago-Case-", dir=directory) as probe:
        return (directory / Path(probe.name).name.swapcase()).exists()


def is_same_disk(one: Path, other: Path) -> bool:
    """Whether what is written to one takes room from the other."""
    return nearest_directory(one).stat().st_dev == nearest_directory(other).stat().st_dev

"""What the disk below a directory has left, how it takes names, and whether it tells of changes.

Every function takes a directory that need not exist yet: it asks where it would be made. How a file
system behaves is found out by trying, never by its name.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import unicodedata
from dataclasses import dataclass
from pathlib import Path

_LONG_AGO_NS = 10**18


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemTraits:
    """How the file system below a directory behaves."""

    folds_case: bool
    normalises: bool
    tells_mapped_writes: bool


def probe_traits(place: Path) -> FileSystemTraits:
    """Find out how the file system behaves."""
    return FileSystemTraits(
        folds_case=folds_case(place),
        normalises=normalises(place),
        tells_mapped_writes=tells_mapped_writes(place),
    )


class LocalDisk:
    """The disk that a directory is on, or will be."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def folds_case(self) -> bool:
        """Whether this file system takes `A` and `a` for the same name."""
        return folds_case(self._directory)

    @property
    def normalises(self) -> bool:
        """Whether this file system takes two spellings of `é` for the same name."""
        return normalises(self._directory)

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


def normalises(place: Path) -> bool:
    """Whether the file system takes a composed `é` and a decomposed one for the same name."""
    directory = nearest_directory(place)
    with tempfile.NamedTemporaryFile(prefix=".perago-caf\u00e9-", dir=directory) as probe:
        name = Path(probe.name).name
        return (directory / unicodedata.normalize("NFD", name)).exists()


def tells_mapped_writes(place: Path) -> bool:
    """Whether a write to a file that is mapped into memory changes the file's times.

    On a tmpfs it does not, once the page was read. Where files cannot be mapped, nobody writes so.
    """
    with tempfile.NamedTemporaryFile(prefix=".perago-map-", dir=nearest_directory(place)) as probe:
        descriptor = probe.fileno()
        os.truncate(descriptor, mmap.PAGESIZE)
        try:
            mapped = mmap.mmap(descriptor, mmap.PAGESIZE)
        except OSError:
            return True
        with mapped:
            _ = mapped[0]
            # Set to long ago, for the clock of a file system may stand still for seconds.
            os.utime(descriptor, ns=(_LONG_AGO_NS, _LONG_AGO_NS))
            mapped[0] = 1
            return os.fstat(descriptor).st_mtime_ns != _LONG_AGO_NS


def is_same_disk(one: Path, other: Path) -> bool:
    """Whether what is written to one takes room from the other."""
    return nearest_directory(one).stat().st_dev == nearest_directory(other).stat().st_dev

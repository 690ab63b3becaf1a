"""How a tree is deleted, once it is known that it may be: for `directories.remove_tree` alone."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def require_same(path: Path, descriptor: int, found: os.stat_result) -> None:
    """Raise unless an open directory is the one that was found before."""
    if not os.path.samestat(os.fstat(descriptor), found):
        raise OSError(errno.ESTALE, "it is another directory than before", str(path))


Entry: TypeAlias = tuple[str, bool]
"""What lies in a directory: a name, and whether it is a directory itself."""


@dataclass(slots=True)
class _Level:
    """A directory on the way down: what it is called, which one it is, what is still in it."""

    name: str
    found: os.stat_result
    directories: list[str] = field(default_factory=list)


class TreeRemoval:
    """Deletes one tree, with one open directory at a time.

    Back up it goes by `..`, and sees that this is where it came from: a directory that somebody
    moves meanwhile does not lead it elsewhere.
    """

    def __init__(
        self,
        parent: int,
        name: str,
        place: Path,
        *,
        list_entries: Callable[[int], list[Entry]] | None = None,
    ) -> None:
        self._list_entries = list_entries or _list_entries
        self._place = place
        self._here = os.dup(parent)
        self._levels = [_Level("", os.fstat(self._here), [name])]
        self._error: OSError | None = None

    def run(self) -> None:
        """Delete what can be; then raise the first error."""
        try:
            while self._levels[-1].directories or len(self._levels) > 1:
                if self._levels[-1].directories:
                    self._descend(self._levels[-1].directories.pop())
                else:
                    self._ascend()
        finally:
            os.close(self._here)
        if self._error is not None:
            raise self._error

    def _descend(self, name: str) -> None:
        try:
            below = _enter(self._here, name)
        except FileNotFoundError:
            return
        except OSError as error:
            self._note(error)
            return
        found = os.fstat(below)
        if found.st_dev != self._levels[-1].found.st_dev:
            os.close(below)
            self._note(OSError(errno.EXDEV, "another file system is mounted there", name))
            return
        try:
            listed = self._list_entries(below)
        except OSError as error:
            # From up here: of a directory that was removed meanwhile there is no way back up.
            os.close(below)
            if not isinstance(error, FileNotFoundError):
                self._note(error)
            return
        os.close(self._here)
        self._here = below
        self._levels.append(_Level(name, found, self._empty(listed)))

    def _empty(self, listed: list[Entry]) -> list[str]:
        """Delete all but directories, and name those."""
        for name, is_directory in listed:
            if not is_directory:
                try:
                    os.unlink(name, dir_fd=self._here)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self._note(error)
        return [name for name, is_directory in listed if is_directory]

    def _ascend(self) -> None:
        left = self._levels.pop()
        above = os.open("..", OPEN_DIRECTORY, dir_fd=self._here)
        os.close(self._here)
        self._here = above
        require_same(self._place, above, self._levels[-1].found)
        try:
            os.rmdir(left.name, dir_fd=above)
        except FileNotFoundError:
            return
        except OSError as error:
            self._note(error)

    def _note(self, error: OSError) -> None:
        if self._error is None:
            self._error = OSError(error.errno, error.strerror, str(self._place))


def _list_entries(directory: int) -> list[Entry]:
    with os.scandir(directory) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


def _enter(parent: int, name: str) -> int:
    """Open a directory that is to be emptied, whatever was done to its permissions."""
    try:
        descriptor = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
    except PermissionError:
        _permit(parent, name)
        descriptor = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
    with suppress(OSError):  # should it matter, the deletion below it says so
        if os.fstat(descriptor).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.fchmod(descriptor, stat.S_IRWXU)
    return descriptor


def _permit(parent: int, name: str) -> None:
    """Give ourselves a directory that cannot even be opened, and follow no link in its place."""
    if sys.platform != "linux":
        os.chmod(name, stat.S_IRWXU, dir_fd=parent, follow_symlinks=False)
        return
    # Linux changes no mode without following links, but by way of a descriptor it does.
    descriptor = os.open(name, os.O_PATH | OPEN_DIRECTORY, dir_fd=parent)
    try:
        Path(f"/proc/self/fd/{descriptor}").chmod(stat.S_IRWXU)
    finally:
        os.close(descriptor)

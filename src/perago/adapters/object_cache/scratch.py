"""Directories for files on their way in or out of the cache.

Invariant: whoever works in such a directory holds a lock on it. The kernel drops the lock of a
process that dies, so a directory without one is debris, and anybody may remove it.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from itertools import count
from pathlib import Path

from perago.adapters.object_cache.layout import CacheHome, is_still_at
from perago.system.file_lock import try_lock
from perago.system.tree_removal import OPEN_DIRECTORY


class Scratch:
    """A directory of this process's own, until `remove`."""

    def __init__(self, home: CacheHome) -> None:
        self._home = home
        self._path, self._descriptor = _make_locked(home.incoming)
        self._numbers = count()

    def new_name(self) -> Path:
        """A name that nothing in the directory has; safe to call from many threads."""
        return self._path / str(next(self._numbers))

    def remove(self) -> None:
        """Remove the directory with all that is left in it."""
        _remove(self._home, self._path.name)
        os.close(self._descriptor)


def new_scratch_name(incoming: Path) -> Path:
    """The name of a scratch directory that does not exist."""
    return incoming / secrets.token_hex(16)


def sweep(home: CacheHome) -> None:
    """Remove the scratch directories of processes that died."""
    for path in home.incoming.iterdir():
        try:
            descriptor = os.open(path, OPEN_DIRECTORY)
        except OSError:
            continue  # its owner was faster, or it is nothing of ours
        try:
            if try_lock(descriptor):
                _remove(home, path.name)
        finally:
            os.close(descriptor)


def _remove(home: CacheHome, name: str) -> None:
    with suppress(OSError), home.opened() as own, own.below("incoming") as incoming:
        incoming.remove_tree(name)  # what stays is swept later


def _make_locked(incoming: Path) -> tuple[Path, int]:
    while True:
        path = new_scratch_name(incoming)
        path.mkdir(mode=0o700)
        try:
            descriptor = os.open(path, OPEN_DIRECTORY)
        except FileNotFoundError:
            continue
        # Between its making and its locking a sweep may have taken it for debris: make another.
        if try_lock(descriptor) and is_still_at(path, descriptor):
            return path, descriptor
        os.close(descriptor)

"""Directories for files on their way in or out of the cache.

Invariant: whoever works in such a directory holds a lock on it. The kernel drops the lock of a
process that dies, so a directory without one is debris, and anybody may remove it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from itertools import count
from pathlib import Path

from perago.adapters.object_cache.layout import is_still_at

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Scratch:
    """A directory of this process's own, until `remove`."""

    def __init__(self, incoming: Path) -> None:
        self._path, self._descriptor = _make_locked(incoming)
        self._numbers = count()

    def new_name(self) -> Path:
        """A name that nothing in the directory has; safe to call from many threads."""
        return self._path / str(next(self._numbers))

    def remove(self) -> None:
        """Remove the directory with all that is left in it."""
        shutil.rmtree(self._path, ignore_errors=True)  # what stays is swept later
        os.close(self._descriptor)


def new_scratch_name(incoming: Path) -> Path:
    """The name of a scratch directory that does not exist."""
    return incoming / secrets.token_hex(16)


def sweep(incoming: Path) -> None:
    """Remove the scratch directories of processes that died."""
    for path in incoming.iterdir():
        try:
            descriptor = os.open(path, _OPEN_DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            continue  # its owner was faster, or it is nothing of ours
        try:
            if _try_lock(descriptor):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)


def _make_locked(incoming: Path) -> tuple[Path, int]:
    while True:
        path = new_scratch_name(incoming)
        path.mkdir(mode=0o700)
        try:
            descriptor = os.open(path, _OPEN_DIRECTORY)
        except FileNotFoundError:
            continue
        # Between its making and its locking a sweep may have taken it for debris: make another.
        if _try_lock(descriptor) and is_still_at(path, descriptor):
            return path, descriptor
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

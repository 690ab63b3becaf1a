"""The one file lock: held by one process at a time, released by the kernel when its holder dies.

Invariant: nothing but a lock file is ever locked or written to. What is a link, no regular file,
another user's, or has a second name is refused, and no file is truncated.

The package `filelock` has no use here: it opens by path alone, asks neither whose file it is nor of
which kind, and up to 3.29 emptied the file before it held the lock.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from perago.domain.errors import EnvironmentUnfitError

_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HOLDER = re.compile(rb"[0-9]{0,10}\n?")
_HOLDER_BYTES = 32
_FIRST_PAUSE_SECONDS = 0.001
_LONGEST_PAUSE_SECONDS = 0.05

OnWait = Callable[[float], None]
"""Hears again and again how many seconds the lock was waited for; may raise to give up."""


def open_lock_file(path: Path, *, directory: int | None = None, is_new: bool = False) -> int:
    """Open a lock file, made if it is missing; `is_new` wants it to be missing.

    `directory` is an open directory that `path` is relative to. Raises `EnvironmentUnfitError`
    where something else has its name, and `OSError` where it cannot be made.
    """
    flags = _OPEN | os.O_CREAT | (os.O_EXCL if is_new else 0)
    if path.is_symlink() and directory is None:
        raise _refusal(path, "it is a link")
    descriptor = os.open(path, flags, 0o600, dir_fd=directory)
    return _checked(path, descriptor)


def open_existing_lock_file(path: Path) -> int:
    """Open a lock file that is there; `FileNotFoundError` where none is."""
    return _checked(path, os.open(path, _OPEN))


def _checked(path: Path, descriptor: int) -> int:
    found = os.fstat(descriptor)
    reason = None
    if not stat.S_ISREG(found.st_mode):
        reason = "it is not a regular file"
    elif found.st_uid != os.geteuid():
        reason = f"it belongs to user {found.st_uid}"
    elif found.st_nlink > 1:
        reason = "it has a second name"
    if reason is not None:
        os.close(descriptor)
        raise _refusal(path, reason)
    return descriptor


def _refusal(path: Path, reason: str) -> EnvironmentUnfitError:
    return EnvironmentUnfitError(
        f"{path} is no lock file of Perago's: {reason}", hint="move it out of the way"
    )


def try_lock(descriptor: int) -> bool:
    """Lock an open file or directory; False while another process holds it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(descriptor: int, on_wait: OnWait | None = None) -> None:
    """Lock an open file, however long that takes.

    Not with a blocking call: a process that was suspended with the lock must not suspend others.
    """
    began, pause = time.monotonic(), _FIRST_PAUSE_SECONDS
    while not try_lock(descriptor):
        if on_wait is not None:
            on_wait(time.monotonic() - began)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


@contextmanager
def hold_file_lock(path: Path, *, on_wait: OnWait | None = None) -> Iterator[None]:
    """Hold a lock for a `with` block.

    The file stays: a process that removed it would leave two holders, each with its own file.
    """
    descriptor = open_lock_file(path)
    try:
        wait_for_lock(descriptor, on_wait)
        yield
    finally:
        os.close(descriptor)


def give_up_after(seconds: float, message: str) -> OnWait:
    """Wait for a lock so long, and then raise `TimeoutError`."""

    def look(waited: float) -> None:
        if waited > seconds:
            raise TimeoutError(message)

    return look


def write_holder(descriptor: int) -> bool:
    """Write this process's id into a lock that it holds; False where other content is there."""
    if not _HOLDER.fullmatch(os.pread(descriptor, _HOLDER_BYTES, 0)):
        return False
    holder = f"{os.getpid()}\n".encode("ascii")
    os.pwrite(descriptor, holder, 0)
    os.ftruncate(descriptor, len(holder))
    return True


def read_holder(descriptor: int) -> int | None:
    """Which process wrote its id into a lock, as far as that can be read."""
    content = os.pread(descriptor, _HOLDER_BYTES, 0)
    return int(content) if content.strip() and _HOLDER.fullmatch(content) else None

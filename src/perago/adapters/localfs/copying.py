"""Moves bytes between files and hashes them on the way, in flat memory.

Invariant: a digest returned here is that of the bytes that were really written (or, for a
clone, that are really there), never of what the source was thought to hold.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from blake3 import blake3

from perago.domain.ids import Digest

# Large enough to make system calls cheap, small enough to stay in the processor's cache. Larger
# writes also have the kernel look for larger pieces of free memory; measured, that made a copy up
# to five times slower.
_CHUNK_BYTES = 128 * 1024
_HASHED_BYTES = 1 << 20
_STANDARD_ERROR = 2
_FICLONE = 0x40049409
_OPEN_SOURCE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN_TARGET = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

StrPath = str | os.PathLike[str]
OnBytes = Callable[[int], None]
"""Hears of every chunk; may raise to stop."""


class NotAFileError(OSError):
    """What is at a path is not a regular file."""


def open_source(path: StrPath, *, directory: int | None = None) -> int:
    """Open a regular file to read; a link is not followed and a fifo is not waited for.

    `directory` is an open directory that `path` is relative to.
    """
    descriptor = _above_standard(os.open(path, _OPEN_SOURCE, dir_fd=directory))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotAFileError(f"{path} is not a regular file")
    return descriptor


def create_target(path: StrPath, mode: int = 0o666) -> int:
    """Create a new file to write; `FileExistsError` where something has that name.

    Nothing is ever written over: a file system may take two different names for one.
    """
    return _above_standard(os.open(path, _OPEN_TARGET, mode))


def _above_standard(descriptor: int) -> int:
    """Move a descriptor out of the way of the standard streams.

    Where somebody closed standard error, a file would get its number, and a stray line of text
    would be written into an object. SQLite guards its own files in the same way.
    """
    if descriptor > _STANDARD_ERROR:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STANDARD_ERROR + 1)
    finally:
        os.close(descriptor)


def read_whole(path: StrPath, limit: int) -> bytes:
    """The content of a small regular file, at most `limit` + 1 bytes of it."""
    descriptor = open_source(path)
    try:
        content = os.read(descriptor, limit + 1)
        while content and len(content) <= limit:
            more = os.read(descriptor, limit + 1 - len(content))
            if not more:
                break
            content += more
        return content
    finally:
        os.close(descriptor)


def write_whole(descriptor: int, content: bytes | memoryview) -> None:
    """Write all of it: a nearly full disk takes a part and fails at the next try."""
    window = memoryview(content)
    written = os.write(descriptor, window[:_CHUNK_BYTES])
    while written < len(window):
        written += os.write(descriptor, window[written : written + _CHUNK_BYTES])


def hash_path(path: StrPath) -> Digest:
    """The digest of what a regular file holds."""
    descriptor = open_source(path)
    try:
        return hash_open(descriptor)[0]
    finally:
        os.close(descriptor)


def hash_open(descriptor: int) -> tuple[Digest, int]:
    """The digest and the size of what an open file holds.

    Read in chunks rather than mapped: a file that shrinks under a mapping kills the process.
    """
    hasher, total = blake3(), 0
    while chunk := os.read(descriptor, _HASHED_BYTES):
        hasher.update(chunk)
        total += len(chunk)
    return Digest(hasher.hexdigest()), total


def hash_file(source: int, on_bytes: OnBytes) -> tuple[bytes, int]:
    """The digest and size of what is in an open file from here on."""
    return _pump(source, None, on_bytes)


def copy_file(
    source: int, target: int, on_bytes: OnBytes, *, source_may_change: bool
) -> tuple[bytes, int]:
    """Copy an open file into an empty one; the digest and size of what was written.

    Where the file system can share blocks (Btrfs, XFS) the copy is a clone: as private as any
    copy, and free until one side is changed. Then a source that may change is not hashed but the
    clone is; of one that does not, the source is, for it is more likely to be in memory.
    """
    if _clone(source, target):
        return _pump(target if source_may_change else source, None, on_bytes)
    return _pump(source, target, on_bytes)


def flush(descriptor: int) -> None:
    """Wait until a file, or a directory's names, would survive a power loss."""
    if sys.platform == "darwin":
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def flush_directory(path: Path) -> None:
    """Make the names in a directory survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flush(descriptor)
    finally:
        os.close(descriptor)


def _clone(source: int, target: int) -> bool:
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:  # another file system, or one that cannot: an ordinary copy will do
        return False
    return True


def _pump(source: int, target: int | None, on_bytes: OnBytes) -> tuple[bytes, int]:
    hasher, total = blake3(), 0
    buffer = bytearray(max(1, min(_CHUNK_BYTES, os.fstat(source).st_size + 1)))
    window = memoryview(buffer)
    stream = FileIO(source, closefd=False)
    while count := stream.readinto(buffer):
        chunk = window[:count]
        hasher.update(chunk)
        if target is not None:
            write_whole(target, chunk)
        total += count
        on_bytes(count)
    return hasher.digest(), total

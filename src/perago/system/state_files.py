"""Small files that Perago keeps between two runs: read with bounds, written whole, for us alone.

Invariant: whatever was put in the place of such a file (a link, a fifo, a gigabyte, JSON nested a
million times), reading it ends at once, with content or with an error that a caller expects.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

STATE_BYTES = 64 * 1024
"""More than any state file of Perago's holds."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVATE_FILE = 0o600
_OTHERS = 0o077
_UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.new")


def open_state(
    name: str | Path, *, directory: int | None = None, may_be_another_user_s: bool = False
) -> int:
    """Open a state file to read: a regular file of our own user, never through a link.

    `directory` is an open directory that `name` is relative to. Raises `FileNotFoundError` where
    there is none, and `ValueError` for what is not a state file. Only what describes a shared cache
    may be another user's, such as that of who built an image.
    """
    try:
        descriptor = os.open(name, _READ, dir_fd=directory)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"it cannot be opened: {error.strerror}") from error
    found = os.fstat(descriptor)
    is_trusted = may_be_another_user_s or found.st_uid == os.geteuid()
    if not stat.S_ISREG(found.st_mode) or not is_trusted:
        os.close(descriptor)
        raise ValueError("it is not a file of this user")
    return descriptor


def read_state(
    name: str | Path, *, directory: int | None = None, may_be_another_user_s: bool = False
) -> object:
    """What a state file holds, as JSON; see `open_state`."""
    return parse_state(
        read_state_bytes(name, directory=directory, may_be_another_user_s=may_be_another_user_s)
    )


def read_state_bytes(
    name: str | Path,
    *,
    directory: int | None = None,
    limit: int = STATE_BYTES,
    may_be_another_user_s: bool = False,
) -> bytes:
    """The content of a state file; `ValueError` where it is longer than any of ours."""
    descriptor = open_state(name, directory=directory, may_be_another_user_s=may_be_another_user_s)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor has no path
        try:
            content = file.read(limit + 1)
        except OSError as error:
            raise ValueError(f"it cannot be read: {error.strerror}") from error
    if len(content) > limit:
        raise ValueError(f"it is longer than {limit} bytes")
    return content


def parse_state(content: bytes) -> object:
    """JSON from a source that may hold anything; `ValueError` for what is not JSON."""
    try:
        found: object = json.loads(content.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return found


def write_state(name: str, content: bytes, *, directory: int) -> None:
    """Write a state file into an open directory, whole or not at all, readable by us alone."""
    fresh = _new_name()
    descriptor = os.open(fresh, _CREATE, _PRIVATE_FILE, dir_fd=directory)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no path
            file.write(content)
            file.flush()
            # Else a machine that stops now may have the name with nothing in it.
            os.fsync(file.fileno())
        os.replace(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(fresh, dir_fd=directory)
        raise


def is_unfinished(name: str) -> bool:
    """Whether a file is what a kill left of a state file that was being written."""
    return _UNFINISHED.fullmatch(name) is not None


def _new_name() -> str:
    return f".{secrets.token_hex(8)}.new"


def make_private(path: Path) -> None:
    """Make sure that a file is there and that nobody else reads it, whatever the umask is.

    For files that other code opens by name. It is never opened here under that name: where SQLite
    has it open in this process, closing another descriptor of it would drop SQLite's locks.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        fresh = path.with_name(_new_name())
        os.close(os.open(fresh, _CREATE, _PRIVATE_FILE))
        try:
            path.hardlink_to(fresh)
        except FileExistsError:  # another process was faster
            return
        except OSError:  # a file system without hard links
            with suppress(FileExistsError):
                os.close(os.open(path, _CREATE, _PRIVATE_FILE))
        finally:
            fresh.unlink()
        return
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_mode & _OTHERS:
        with suppress(OSError):  # on a file system that is read only
            path.chmod(found.st_mode & ~_OTHERS & 0o777)


def make_private_database(path: Path) -> None:
    """The same for an SQLite file and what lies beside it: SQLite gives these the file's mode."""
    make_private(path)
    for suffix in ("-wal", "-shm", "-journal"):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            make_private(beside)


def whole_number(value: object, *, least: int = 0, most: int = 2**63 - 1) -> int:
    """A number from a state file; `ValueError` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError("a number is wrong")
    return value


def text_of(value: object, *, most: int = 4096) -> str:
    """A text from a state file that can be shown; `ValueError` for anything else."""
    if not isinstance(value, str) or len(value) > most:
        raise ValueError("a text is wrong")
    value.encode("utf-8")  # half a surrogate pair breaks the first log line that has it
    return value

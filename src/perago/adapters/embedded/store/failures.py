"""Turns what the disk and SQLite say into Perago's errors, in one place.

Invariant: neither `OSError` nor `sqlite3.Error` leaves the store.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perago.domain.errors import (
    CorruptStoreError,
    EnvironmentUnfitError,
    InsufficientDiskError,
    OutcomeUnknownError,
    PeragoError,
    StoreError,
    StoreUnavailableError,
)

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NEARLY_FULL_BYTES = 256 * 1024
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR}


def explain_os_error(error: OSError, place: Path, action: str) -> PeragoError:
    """The error to raise when an action of ours failed at a place."""
    said = error.strerror or str(error)
    if error.errno in _FULL:
        return InsufficientDiskError(
            f"cannot {action} {place}: {said}",
            hint="free some space or raise the quota of that disk, then try again",
        )
    if error.errno in _FORBIDDEN:
        return explain_unwritable(place, said)
    return StoreError(
        f"cannot {action} {place}: {said}", hint="look at that path and at the disk it is on"
    )


def explain_unwritable(place: Path, said: str) -> EnvironmentUnfitError:
    """The error for a place that this user cannot write to."""
    return EnvironmentUnfitError(
        f"{place} cannot be written: {said}",
        hint="make it writable for this user, or choose another home (PERAGO_HOME)",
    )


def explain_sqlite_error(error: sqlite3.Error, database: Path, *, committing: bool) -> PeragoError:
    """The error to raise when SQLite failed; `committing` says that a COMMIT was under way."""
    # A driver error without a code is a misuse, of which there should be none.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF
    match code:
        case sqlite3.SQLITE_FULL:
            return _explain_full_disk(database)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreUnavailableError(
                f"the store {database} is busy: another process holds its write lock",
                hint="try again; nothing was changed",
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return explain_unwritable(database, str(error))
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return CorruptStoreError(
                f"the database {database} is damaged: {error}",
                hint="restore the home from a backup",
            )
        case sqlite3.SQLITE_IOERR if committing:
            return OutcomeUnknownError(
                f"writing {database} failed in the middle of a commit: {error}",
                hint="look at the disk, then at the branch, before doing it again",
            )
        # SQLite says so when it finds no room for its shared memory.
        case sqlite3.SQLITE_IOERR if _is_nearly_full(database.parent):
            return _explain_full_disk(database)
        case _:
            return StoreError(
                f"the database {database} failed: {error}",
                hint="look at the disk; nothing of the last change was kept",
            )


@contextmanager
def disk_errors(place: Path, action: str) -> Iterator[None]:
    """Translate every `OSError` of the block."""
    try:
        yield
    except OSError as error:
        raise explain_os_error(error, place, action) from error


def _explain_full_disk(database: Path) -> InsufficientDiskError:
    return InsufficientDiskError(
        f"cannot write to {database}: the disk is full",
        hint="free some space; nothing of the last change was kept",
    )


def _is_nearly_full(directory: Path) -> bool:
    try:
        found = os.statvfs(directory)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _NEARLY_FULL_BYTES

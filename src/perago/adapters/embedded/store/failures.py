"""Turns what SQLite says into Perago's errors, in one place.

Invariant: neither `OSError` nor `sqlite3.Error` leaves the store.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from perago.adapters.localfs.disk_errors import explain_unwritable
from perago.domain.errors import (
    CorruptStoreError,
    InsufficientDiskError,
    OutcomeUnknownError,
    PeragoError,
    StoreError,
    StoreUnavailableError,
)

_NEARLY_FULL_BYTES = 256 * 1024


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

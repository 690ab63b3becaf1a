"""What the disk and SQLite say, and what the reader is told."""

import errno
import os
import sqlite3
from pathlib import Path

import pytest

from perago.adapters.embedded.store.failures import explain_sqlite_error
from perago.adapters.localfs.disk_errors import explain_os_error
from perago.domain.errors import (
    CorruptStoreError,
    EnvironmentUnfitError,
    InsufficientDiskError,
    OutcomeUnknownError,
    PeragoError,
    StoreError,
    StoreUnavailableError,
)

PLACE = Path("/some/place")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (errno.ENOSPC, InsufficientDiskError),
        (errno.EDQUOT, InsufficientDiskError),
        (errno.EFBIG, InsufficientDiskError),
        (errno.EACCES, EnvironmentUnfitError),
        (errno.EROFS, EnvironmentUnfitError),
        (errno.ENOTDIR, EnvironmentUnfitError),
        (errno.EIO, StoreError),
        (errno.EMFILE, StoreError),
    ],
)
def test_every_os_error_names_the_place_and_a_way_out(code: int, kind: type[PeragoError]) -> None:
    error = explain_os_error(OSError(code, os.strerror(code)), PLACE, "write to")
    assert type(error) is kind
    assert str(PLACE) in error.message
    assert os.strerror(code) in error.message
    assert error.hint


@pytest.mark.parametrize(
    ("code", "committing", "kind"),
    [
        (sqlite3.SQLITE_FULL, True, InsufficientDiskError),
        (sqlite3.SQLITE_BUSY, False, StoreUnavailableError),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, False, StoreUnavailableError),
        (sqlite3.SQLITE_READONLY_DIRECTORY, False, EnvironmentUnfitError),
        (sqlite3.SQLITE_CANTOPEN, False, EnvironmentUnfitError),
        (sqlite3.SQLITE_CORRUPT, False, CorruptStoreError),
        (sqlite3.SQLITE_NOTADB, False, CorruptStoreError),
        (sqlite3.SQLITE_IOERR_WRITE, False, StoreError),
        (sqlite3.SQLITE_IOERR_WRITE, True, OutcomeUnknownError),
        (sqlite3.SQLITE_TOOBIG, False, StoreError),
        (None, False, StoreError),
    ],
)
def test_every_sqlite_error_names_the_database_and_a_way_out(
    code: int | None, committing: bool, kind: type[PeragoError]
) -> None:
    raised = sqlite3.OperationalError("what SQLite said")
    if code is not None:
        raised.sqlite_errorcode = code
    error = explain_sqlite_error(raised, PLACE, committing=committing)
    assert type(error) is kind
    assert str(PLACE) in error.message
    assert error.hint

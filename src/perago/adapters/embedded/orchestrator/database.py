"""The connection to `orchestrator.db`, its transactions, and SQLite's errors in our words.

Invariant: a transaction is kept whole or not at all, also when the process is killed inside it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perago.adapters.embedded.orchestrator import sql
from perago.domain.errors import (
    EnvironmentUnfitError,
    OrchestratorError,
    OrchestratorUnavailableError,
    PeragoError,
)
from perago.system.directories import make_private_directories
from perago.system.state_files import make_private_database

# How long a transaction waits for another process's; each takes milliseconds.
BUSY_TIMEOUT_SECONDS = 30.0

# A connection that a fork inherited is never used, nor closed: that would drop the parent's locks.
_inherited: list[sqlite3.Connection] = []


class Database:
    """One connection, used by one thread at a time; every process opens its own."""

    def __init__(self, path: Path, *, busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS) -> None:
        self._path = path
        self._busy_timeout_seconds = busy_timeout_seconds
        self._lock = threading.RLock()
        self._process = os.getpid()
        with self._explained():
            make_private_directories(path.parent)
            make_private_database(path)
            self._connection = self._open()

    @property
    def connection(self) -> sqlite3.Connection:
        """For use inside a transaction."""
        return self._connection

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One consistent view."""
        with self._transaction("BEGIN"):
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Alone among all writers of all processes."""
        with self._transaction("BEGIN IMMEDIATE"):
            yield

    def close(self) -> None:
        """Give the file back; the last to do so folds the write-ahead log into it."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self._lock, self._explained():
            if self._process != os.getpid():
                _inherited.append(self._connection)
                self._connection, self._process = self._open(), os.getpid()
            self._connection.execute(begin)
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path,
            timeout=self._busy_timeout_seconds,
            isolation_level=None,  # transactions begin and end where this module says so
            check_same_thread=False,
        )
        try:
            connection.row_factory = sqlite3.Row
            for pragma in sql.PRAGMAS:
                connection.execute(pragma)
            self._create_schema(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _create_schema(self, connection: sqlite3.Connection) -> None:
        if self._schema_version(connection) == sql.SCHEMA_VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")  # another process may be at the same work
        version = self._schema_version(connection)
        if version not in (0, sql.SCHEMA_VERSION):
            raise EnvironmentUnfitError(
                f"{self._path} has schema {version}, and this Perago knows {sql.SCHEMA_VERSION}",
                hint="use the Perago that made it, or another home",
            )
        if version == 0:
            for statement in sql.SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {sql.SCHEMA_VERSION}")
        connection.execute("COMMIT")

    def _schema_version(self, connection: sqlite3.Connection) -> int:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise explain_sqlite_error(error, self._path) from error
        except (UnicodeEncodeError, OverflowError) as error:
            # Of a name or a number that was asked for: what is kept was checked before.
            raise OrchestratorError(
                "a text that is no Unicode, or a number that is too large, was asked for",
                hint="check the names and ids that were given",
            ) from error
        except OSError as error:
            raise EnvironmentUnfitError(
                f"cannot keep workflows in {self._path.parent}: {error.strerror}",
                hint="make the home a directory that this user may write to, or choose another",
            ) from error


def explain_sqlite_error(error: sqlite3.Error, path: Path) -> PeragoError:
    """What a SQLite error means for whoever called the orchestrator."""
    # Absent on errors that the Python module raises by itself.
    name = str(getattr(error, "sqlite_errorname", ""))
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return OrchestratorUnavailableError(
            f"{path} is locked by another process: {error}",
            hint="try again; if it stays locked, look for a stopped process that has it open",
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return EnvironmentUnfitError(
            f"cannot write {path}: {error}",
            hint="make the home a directory that this user may write to, or choose another",
        )
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return OrchestratorUnavailableError(
            f"cannot write {path}: {error}", hint="free some disk space, then try again"
        )
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return EnvironmentUnfitError(
            f"{path} is not a sound database: {error}",
            hint="restore it from a backup, or move it away: running workflows are then forgotten",
        )
    return OrchestratorError(f"{path}: {error}", hint="this is a bug in Perago; please report it")

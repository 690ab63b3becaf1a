"""Connections to the store's SQLite file, and its transactions.

Invariant: every change is one `BEGIN IMMEDIATE` transaction, so what it read before it wrote
cannot have changed in between. Connections are never shared between two users at a time, and
never carried over a fork.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from perago.adapters.embedded.store import sql
from perago.adapters.embedded.store.failures import explain_sqlite_error
from perago.adapters.embedded.store.layout import Durability, StoreHome
from perago.adapters.localfs.disk_errors import disk_errors
from perago.domain.errors import EnvironmentUnfitError
from perago.system.state_files import make_private_database

DEFAULT_TIMEOUT_SECONDS = 60.0
_PAGE_BYTES = 8192
_CHECKPOINT_PAGES = 2000

# Connections that a fork inherited: closing or even forgetting them would touch the parent's
# locks, so they are kept for as long as this process lives.
_inherited: list[sqlite3.Connection] = []


class Database:
    """A pool of connections that opens them when they are needed."""

    def __init__(self, home: StoreHome, durability: Durability) -> None:
        self._home = home
        self._durability = durability
        self._guard = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._process = os.getpid()
        self._generation = 0

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent view, whatever others write meanwhile."""
        with self._transaction("BEGIN", DEFAULT_TIMEOUT_SECONDS) as connection:
            yield connection

    @contextmanager
    def writing(
        self, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    ) -> Iterator[sqlite3.Connection]:
        """One change, whole or not at all; waits that long for other writers."""
        with self._transaction("BEGIN IMMEDIATE", timeout_seconds) as connection:
            yield connection

    def compact(self) -> None:
        """Give free pages back to the file system, as far as nobody is reading."""
        with self._connection() as connection:
            try:
                # As a script: `execute` would stop after the first page.
                connection.executescript("PRAGMA incremental_vacuum")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            except sqlite3.Error as error:
                raise self._explain(error) from error

    def close(self) -> None:
        """Close what is idle now, and what is in use as soon as it is given back."""
        with self._guard:
            self._forget_inherited()
            idle, self._idle = self._idle, []
            self._generation += 1
        for connection in idle:
            connection.close()

    @contextmanager
    def _transaction(self, begin: str, timeout_seconds: float) -> Iterator[sqlite3.Connection]:
        with self._connection() as connection:
            committing = False
            try:
                milliseconds = max(0, int(timeout_seconds * 1000))
                connection.execute(f"PRAGMA busy_timeout = {milliseconds}")
                connection.execute(begin)
                yield connection
                committing = True
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise self._explain(error, committing=committing) from error
            finally:
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._guard:
            self._forget_inherited()
            generation = self._generation
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._open()
        try:
            yield connection
        finally:
            with self._guard:
                keep = generation == self._generation
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    def _forget_inherited(self) -> None:
        if self._process != os.getpid():
            _inherited.extend(self._idle)
            self._idle = []
            self._process = os.getpid()

    def _open(self) -> sqlite3.Connection:
        self._home.prepare()
        with disk_errors(self._home.database, "make"):
            make_private_database(self._home.database)
        try:
            connection = sqlite3.connect(
                self._home.database,
                timeout=DEFAULT_TIMEOUT_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
        except sqlite3.Error as error:
            raise self._explain(error) from error
        try:
            self._set_up(connection)
        except sqlite3.Error as error:
            connection.close()
            raise self._explain(error) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: sqlite3.Connection) -> None:
        if _format_of(connection) == 0:
            with self._home.locked("setup"):
                if _format_of(connection) == 0:
                    self._create(connection)
        self._refuse_foreign(connection)
        power = self._durability is Durability.POWER
        connection.execute(f"PRAGMA synchronous = {'FULL' if power else 'NORMAL'}")
        connection.execute(f"PRAGMA fullfsync = {int(power)}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")

    def _create(self, connection: sqlite3.Connection) -> None:
        """Make the tables, unless the file already holds somebody else's."""
        if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            return
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        if connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            raise EnvironmentUnfitError(
                f"{self._home.root} is on a file system without shared memory",
                hint="choose a home on a local disk (PERAGO_HOME), not on a network share",
            )
        connection.execute("BEGIN IMMEDIATE")
        for statement in sql.SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {sql.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {sql.FORMAT_VERSION}")
        connection.execute("COMMIT")

    def _refuse_foreign(self, connection: sqlite3.Connection) -> None:
        database = self._home.database
        if connection.execute("PRAGMA application_id").fetchone() != (sql.APPLICATION_ID,):
            raise EnvironmentUnfitError(
                f"{database} is not a Perago store",
                hint="choose another home (PERAGO_HOME), or move that file away",
            )
        found = _format_of(connection)
        if found > sql.FORMAT_VERSION:
            raise EnvironmentUnfitError(
                f"{database} has store format {found}; this Perago knows up to "
                f"{sql.FORMAT_VERSION}",
                hint="a newer Perago wrote it: upgrade this one, or choose another home "
                "(PERAGO_HOME)",
            )

    def _explain(self, error: sqlite3.Error, *, committing: bool = False) -> Exception:
        return explain_sqlite_error(error, self._home.database, committing=committing)


def _format_of(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)

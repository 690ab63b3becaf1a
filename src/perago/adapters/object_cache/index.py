"""The SQLite file that knows what is in the cache, and in which order it was used.

Invariants: a row may lack its file (a miss) but no file lacks its row. Only who holds the cache's
lock changes rows or opens an index. An index that is damaged or of another format is removed; the
next one has a new name, so a process that still has the old one open cannot touch it, and begins
with no entries.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from perago.adapters.object_cache import sql
from perago.adapters.object_cache.layout import CacheHome
from perago.adapters.object_cache.scratch import new_scratch_name
from perago.domain.ids import Digest
from perago.system.state_files import make_private

_log = logging.getLogger(__name__)

_BUSY_SECONDS = 30.0
_QUERY_IDENTITIES = 500
# On a damaged file the driver also fails to decode what SQLite says, or to get memory for a length
# that is rubbish.
_ERRORS = (sqlite3.Error, UnicodeDecodeError, MemoryError)
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}

# Connections that a fork inherited: to close them would drop the parent's locks.
_inherited: list[sqlite3.Connection] = []


class IndexFailedError(OSError):
    """SQLite could not do what was asked; the cache is of no use at the moment."""


class Change:
    """What can be done to the index while the cache's lock is held. Each method is atomic."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def record(
        self,
        entries: Mapping[Digest, int],
        identities: Mapping[bytes, Digest],
        used: Iterable[Digest],
    ) -> None:
        """Add entries (digest to disk use) and identities (to digests); note what was used."""
        key = bytes.fromhex
        with self._transaction() as connection:
            connection.executemany(sql.TOUCH_ENTRY, [(key(digest),) for digest in used])
            connection.executemany(
                sql.UPSERT_ENTRY, [(key(digest), disk) for digest, disk in entries.items()]
            )
            connection.executemany(
                sql.UPSERT_IDENTITY, [(name, key(digest)) for name, digest in identities.items()]
            )
            connection.execute(sql.TRIM_IDENTITIES)

    def forget(self, digests: Iterable[Digest]) -> None:
        """Remove entries."""
        with self._transaction() as connection:
            keys = [(bytes.fromhex(digest),) for digest in digests]
            connection.executemany(sql.DELETE_ENTRY, keys)

    def totals(self) -> tuple[int, int]:
        """How many entries there are, and their disk use."""
        return _totals(self._connection)

    def from_oldest(self) -> Iterator[tuple[Digest, int]]:
        """Digest and disk use of each entry; the one that was not used for longest is first."""
        with closing(self._connection.execute(sql.SELECT_BY_USE)) as cursor:
            yield from cursor

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        yield self._connection
        self._connection.execute("COMMIT")


class Index:
    """The index of one cache, as one process sees it. Raises `OSError` when it fails."""

    def __init__(self, home: CacheHome) -> None:
        self._home = home
        self._guard = threading.Lock()
        self._opened: tuple[Path, sqlite3.Connection] | None = None
        self._process = os.getpid()

    def find(self, identities: Sequence[bytes]) -> dict[bytes, Digest]:
        """The digests of those identities whose content should be here."""
        found: dict[bytes, Digest] = {}
        with self._guard, self._failures():
            connection = self._current()
            if connection is None:
                with self._home.locked():
                    connection = self._open()
            for start in range(0, len(identities), _QUERY_IDENTITIES):
                asked = identities[start : start + _QUERY_IDENTITIES]
                found.update(connection.execute(sql.select_identities(len(asked)), asked))
        return found

    @contextmanager
    def changing(self) -> Iterator[Change]:
        """Hold the cache's lock; no other process changes rows or object files meanwhile."""
        with self._guard, self._home.locked(), self._failures():
            yield Change(self._current() or self._open())

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._guard:
            self._forget_inherited()
            self._let_go()

    def _current(self) -> sqlite3.Connection | None:
        """The open connection, unless its file was thrown away meanwhile."""
        self._forget_inherited()
        if self._opened is None:
            return None
        path, connection = self._opened
        return connection if path.exists() else None

    def _open(self) -> sqlite3.Connection:
        self._let_go()
        found = self._home.index_files()
        connection = self._open_existing(found[0]) if len(found) == 1 else None
        if connection is None:
            path = self._make_way()
            make_private(path)
            connection = _connect(path)
            self._opened = path, connection
            _create(connection)
        return connection

    def _open_existing(self, path: Path) -> sqlite3.Connection | None:
        """A connection to a sound index, or None."""
        connection = _connect(path)
        self._opened = path, connection
        try:
            fault = _find_fault(connection)
        except _ERRORS as error:
            if not _is_damage(error):
                raise
            fault = str(error)
        if fault is None:
            return connection
        _log.warning("the index %s of the object cache begins anew: %s", path, fault)
        self._let_go()
        return None

    def _make_way(self) -> Path:
        """Throw away every index and every entry; the name of a new index."""
        for path in self._home.root.glob("index-*"):
            path.unlink(missing_ok=True)
        with self._home.opened() as own:
            is_gone = own.remove_empty("objects")
        if not is_gone:
            # Not empty. Without a lock of its own it is debris, which the next sweep removes.
            self._home.objects.rename(new_scratch_name(self._home.incoming))
        self._home.objects.mkdir(mode=0o700, exist_ok=True)
        return self._home.root / f"index-{os.urandom(8).hex()}.sqlite3"

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Undo what was begun; throw the index away if the error says that it is damaged."""
        try:
            yield
        except sqlite3.ProgrammingError:
            raise
        except _ERRORS as error:
            if self._opened is not None and _is_damage(error):
                path = self._opened[0]
                _log.warning("the index %s of the object cache is thrown away: %s", path, error)
                path.unlink(missing_ok=True)
            self._let_go()
            raise IndexFailedError(f"its index failed: {error}") from error
        except BaseException:
            self._let_go()
            raise

    def _let_go(self) -> None:
        """Close the connection, which undoes what it did not commit."""
        if self._opened is not None:
            _path, connection = self._opened
            self._opened = None
            connection.close()

    def _forget_inherited(self) -> None:
        if self._process != os.getpid():
            if self._opened is not None:
                _inherited.append(self._opened[1])
            self._opened = None
            self._process = os.getpid()


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(sql.SYNCHRONOUS)
    connection.execute("BEGIN IMMEDIATE")
    for statement in sql.SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {sql.APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {sql.FORMAT_VERSION}")
    connection.execute("COMMIT")


def _find_fault(connection: sqlite3.Connection) -> str | None:
    """Why this is no index of ours, or None if it is one."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (application, version) != (sql.APPLICATION_ID, sql.FORMAT_VERSION):
        return f"its format is {version}, not {sql.FORMAT_VERSION}"
    connection.execute(sql.SYNCHRONOUS)
    _totals(connection)
    return None


def _totals(connection: sqlite3.Connection) -> tuple[int, int]:
    row: tuple[int, int] | None = connection.execute(sql.SELECT_TOTALS).fetchone()
    if row is None:
        raise sqlite3.DatabaseError("its totals are missing")
    return row


def _is_damage(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _DAMAGE

"""Writes under way, and how the garbage collector tells the living from the dead.

A session is a row that pins digests, and a file that its process keeps locked. Invariant: a
digest is pinned in the same transaction that decides whether its content must be stored, so no
collection can come between "it is there already" and the commit that relies on it. The kernel
drops the lock of a process that dies, whatever it dies of.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from perago.adapters.embedded.store import sql
from perago.adapters.embedded.store.database import Database
from perago.adapters.embedded.store.layout import StoreHome
from perago.adapters.localfs.disk_errors import disk_errors
from perago.domain.errors import PeragoError
from perago.system.file_lock import (
    open_existing_lock_file,
    open_lock_file,
    try_lock,
    wait_for_lock,
)

DIGEST_BYTES = 32
_QUERY_DIGESTS = 500
_LOCK_SUFFIX = ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredContent:
    """What the store has of a digest."""

    size: int
    is_file: bool


class WriteSession:
    """One write under way. Made by `open_session`."""

    def __init__(self, home: StoreHome, token: str, stored: dict[bytes, StoredContent]) -> None:
        self.token = token
        self.stored = stored
        """Which of the pinned digests were there; they cannot go away during the session."""
        self.is_over = False
        self._home = home
        self._numbers = count()

    def temporary_file(self) -> Path:
        """A new name for a file that is not whole yet."""
        return self._home.incoming / f"{self.token}.{next(self._numbers)}"

    def end(self, connection: sqlite3.Connection) -> None:
        """Release the pins in the very transaction that makes them needless."""
        connection.execute(sql.DELETE_SESSION, (self.token,))
        self.is_over = True


@contextmanager
def open_session(
    home: StoreHome, database: Database, digests: Collection[bytes]
) -> Iterator[WriteSession]:
    """Pin these digests for the length of the block."""
    token, lock = _lock_new_file(home)
    try:
        with database.writing() as connection:
            connection.execute(sql.INSERT_SESSION, (token, b"".join(digests)))
            stored = _select_stored(connection, list(digests))
        session = WriteSession(home, token, stored)
        try:
            yield session
        except BaseException:
            session.is_over = False  # its transaction may have been undone
            raise
        finally:
            if not session.is_over:
                _discard(database, session)
    finally:
        # What cannot be removed now is removed by the next collection.
        with suppress(OSError):
            _lock_file(home, token).unlink()
        os.close(lock)


def living_pins(home: StoreHome, connection: sqlite3.Connection) -> set[bytes]:
    """Every digest that a living session pins."""
    pinned: set[bytes] = set()
    for token, run in connection.execute(sql.SELECT_SESSIONS):
        if _is_alive(home, token):
            pinned.update(
                run[start : start + DIGEST_BYTES] for start in range(0, len(run), DIGEST_BYTES)
            )
    return pinned


def bury_dead_sessions(home: StoreHome, database: Database) -> list[int]:
    """Remove what killed processes left behind; the sizes of their temporary files."""
    with database.writing() as connection, disk_errors(home.incoming, "read"):
        tokens = [token for token, _ in connection.execute(sql.SELECT_SESSIONS)]
        dead = [(token,) for token in tokens if not _is_alive(home, token)]
        connection.executemany(sql.DELETE_SESSION, dead)
    freed: list[int] = []
    with disk_errors(home.incoming, "clean up"):
        # Locks last: without its lock, a session counts as dead.
        names = sorted(home.incoming.iterdir(), key=lambda path: path.suffix == _LOCK_SUFFIX)
        for path in names:
            if path.suffix == _LOCK_SUFFIX:
                _is_alive(home, path.stem, bury=True)
            elif not _is_alive(home, path.stem):
                # A session that ended well meanwhile has taken its files along.
                with suppress(FileNotFoundError):
                    size = path.stat().st_size
                    path.unlink()
                    freed.append(size)
    return freed


def _discard(database: Database, session: WriteSession) -> None:
    # On a full disk even this can fail; the lock goes with the process, and then gc does it.
    with suppress(PeragoError), database.writing() as connection:
        session.end(connection)


def _lock_file(home: StoreHome, token: str) -> Path:
    return home.incoming / f"{token}{_LOCK_SUFFIX}"


def _lock_new_file(home: StoreHome) -> tuple[str, int]:
    with disk_errors(home.incoming, "begin a write in"):
        while True:
            token = secrets.token_hex(16)
            descriptor = open_lock_file(_lock_file(home, token), is_new=True)
            wait_for_lock(descriptor)
            if os.fstat(descriptor).st_nlink:
                return token, descriptor
            # A collection buried the file between its creation and the lock: take another.
            os.close(descriptor)


def _is_alive(home: StoreHome, token: str, *, bury: bool = False) -> bool:
    """Whether the process of a session still holds its lock; if not, maybe remove the file."""
    path = _lock_file(home, token)
    try:
        descriptor = open_existing_lock_file(path)
    except FileNotFoundError:
        return False
    try:
        if not try_lock(descriptor):
            return True
        if bury:
            path.unlink(missing_ok=True)
        return False
    finally:
        os.close(descriptor)


def _select_stored(
    connection: sqlite3.Connection, digests: list[bytes]
) -> dict[bytes, StoredContent]:
    stored: dict[bytes, StoredContent] = {}
    for start in range(0, len(digests), _QUERY_DIGESTS):
        asked = digests[start : start + _QUERY_DIGESTS]
        for digest, size, is_file in connection.execute(sql.select_stored(len(asked)), asked):
            stored[digest] = StoredContent(size=size, is_file=bool(is_file))
    return stored

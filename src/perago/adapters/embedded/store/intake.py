"""Takes local files into the store.

Small contents go into the database in batches, larger ones into files of their own. Invariant:
nothing is stored under a digest that it does not have, and a file gets its final name only when
it is whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from blake3 import blake3

from perago.adapters.embedded.store import sql
from perago.adapters.embedded.store.database import Database
from perago.adapters.embedded.store.layout import Durability, StoreHome
from perago.adapters.embedded.store.sessions import WriteSession
from perago.adapters.embedded.store.transfers import run_transfers
from perago.adapters.localfs.copying import (
    OnBytes,
    copy_file,
    create_target,
    flush,
    flush_directory,
    hash_file,
    open_source,
    read_whole,
)
from perago.adapters.localfs.disk_errors import disk_errors
from perago.domain.errors import UnpublishableFileError
from perago.domain.ids import ObjectPath
from perago.ports import LocalFile, OnTransfer

INLINE_BYTES = 64 * 1024
"""The largest content that is kept in the database (ADR 0003 has the measurements)."""

_BATCH_BYTES = 8 * 1024 * 1024

ContentRow = tuple[bytes, int, bytes | None, int]
"""A row of `contents`: digest, size, data unless it is a file, creation time."""


class Intake:
    """Stores the contents of one write session."""

    def __init__(
        self, home: StoreHome, database: Database, durability: Durability, *, created_at: int
    ) -> None:
        self._home = home
        self._database = database
        self._durability = durability
        self._created_at = created_at

    def take(
        self,
        session: WriteSession,
        files: Mapping[ObjectPath, LocalFile],
        on_transfer: OnTransfer,
    ) -> list[ContentRow]:
        """Check and store every file; the rows that are still to be written with the commit."""
        small = [file for file in files.values() if file.size <= INLINE_BYTES]
        large = [file for file in files.values() if file.size > INLINE_BYTES]
        rows = self._take_small(session, small, on_transfer)
        return rows + self._take_large(session, large, on_transfer)

    def _take_small(
        self, session: WriteSession, files: list[LocalFile], on_transfer: OnTransfer
    ) -> list[ContentRow]:
        known = set(session.stored)
        batch: list[ContentRow] = []
        pending = 0
        for file in files:
            content = _read_local(file)
            digest = bytes.fromhex(file.digest)
            if digest not in known:
                known.add(digest)
                batch.append((digest, file.size, content, self._created_at))
                pending += file.size
            if pending > _BATCH_BYTES:
                self._write(batch)
                batch, pending = [], 0
            on_transfer(1, file.size)
        return batch

    def _take_large(
        self, session: WriteSession, files: list[LocalFile], on_transfer: OnTransfer
    ) -> list[ContentRow]:
        known = {digest for digest in session.stored if self._is_intact(session, digest)}
        rows: list[ContentRow] = []
        transfers: list[Callable[[OnBytes], None]] = []
        for file in files:
            digest = bytes.fromhex(file.digest)
            if digest in known:
                transfers.append(partial(_check_local, file))
                continue
            known.add(digest)
            rows.append((digest, file.size, None, self._created_at))
            transfers.append(partial(self._store_file, session.temporary_file(), digest, file))
        run_transfers(transfers, on_transfer)
        return rows

    def _is_intact(self, session: WriteSession, digest: bytes) -> bool:
        """Whether a stored file is there in full; one that was damaged is stored again."""
        if not session.stored[digest].is_file:
            return True
        try:
            found = self._home.object_file(digest).stat()
        except FileNotFoundError:
            return False
        return found.st_size == session.stored[digest].size

    def _store_file(
        self, temporary: Path, digest: bytes, file: LocalFile, on_bytes: OnBytes
    ) -> None:
        source = _open_local(file)
        try:
            with disk_errors(self._home.incoming, "write to"):
                target = create_target(temporary, 0o400)
                try:
                    found = copy_file(source, target, on_bytes, source_may_change=True)
                    if found != (digest, file.size):
                        raise _changed(file)
                    if self._durability is Durability.POWER:
                        flush(target)
                finally:
                    os.close(target)
                self._give_name(temporary, digest)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(source)

    def _give_name(self, temporary: Path, digest: bytes) -> None:
        final = self._home.object_file(digest)
        final.parent.mkdir(exist_ok=True)
        temporary.replace(final)
        if self._durability is Durability.POWER:
            flush_directory(final.parent)
            flush_directory(self._home.objects)

    def _write(self, rows: list[ContentRow]) -> None:
        with self._database.writing() as connection:
            connection.executemany(sql.UPSERT_CONTENT, rows)


def _open_local(file: LocalFile) -> int:
    try:
        return open_source(file.path)
    except OSError as error:
        raise _unreadable(file, error) from error


def _read_local(file: LocalFile) -> bytes:
    try:
        content = read_whole(file.path, INLINE_BYTES)
    except OSError as error:
        raise _unreadable(file, error) from error
    if len(content) != file.size or blake3(content).hexdigest() != file.digest:
        raise _changed(file)
    return content


def _check_local(file: LocalFile, on_bytes: OnBytes) -> None:
    source = _open_local(file)
    try:
        if hash_file(source, on_bytes) != (bytes.fromhex(file.digest), file.size):
            raise _changed(file)
    except OSError as error:
        raise _unreadable(file, error) from error
    finally:
        os.close(source)


def _changed(file: LocalFile) -> UnpublishableFileError:
    return UnpublishableFileError(
        f"file {str(file.path)!r} changed after it was scanned",
        path=str(file.path),
        hint="nothing may write to the workspace after the body has returned: "
        "wait for threads and child processes",
    )


def _unreadable(file: LocalFile, error: OSError) -> UnpublishableFileError:
    return UnpublishableFileError(
        f"file {str(file.path)!r} cannot be read: {error.strerror or error}",
        path=str(file.path),
        hint="it was there when it was scanned: nothing may change the workspace after the body "
        "has returned",
    )

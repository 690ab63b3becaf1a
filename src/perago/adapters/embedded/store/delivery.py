"""Hands contents out: as streams, and as files of a checkout.

Invariant: a delivered file is a private copy (never a link) whose hash was checked on the way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3

from perago.adapters.embedded.store import sql
from perago.adapters.embedded.store.database import Database
from perago.adapters.embedded.store.layout import StoreHome
from perago.adapters.embedded.store.transfers import run_transfers
from perago.adapters.localfs.copying import (
    OnBytes,
    copy_file,
    create_target,
    open_source,
    write_whole,
)
from perago.adapters.localfs.disk_errors import disk_errors
from perago.domain.errors import CorruptStoreError
from perago.domain.ids import Digest, RelativePath
from perago.domain.workspace import parents_of
from perago.ports import OnTransfer

# At most 64 small contents, so 4 MiB, are in memory at a time.
_BATCH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One content to deliver, and what to call it in an error."""

    digest: bytes
    size: int
    object_name: str


class Delivery:
    """Reads contents back."""

    def __init__(self, home: StoreHome, database: Database) -> None:
        self._home = home
        self._database = database

    @contextmanager
    def open(self, wanted: Wanted) -> Iterator[BinaryIO]:
        """One content as a stream."""
        data = self._fetch([wanted])[wanted.digest]
        if data is not None:
            _check(wanted, blake3(data).digest(), len(data))
            yield BytesIO(data)
            return
        descriptor = self._open_file(wanted)
        with os.fdopen(descriptor, "rb") as stream:
            if os.fstat(descriptor).st_size != wanted.size:
                raise _damaged(wanted, "its file has the wrong length")
            yield stream

    def write_files(
        self, files: Mapping[RelativePath, Wanted], directory: Path, on_transfer: OnTransfer
    ) -> dict[RelativePath, Digest]:
        """Write contents as new files below a directory; the digest of every file."""
        with disk_errors(directory, "write to"):
            for parent in sorted({parent for path in files for parent in parents_of(path)}):
                (directory / parent).mkdir(exist_ok=True)
            large: list[Callable[[OnBytes], None]] = []
            items = list(files.items())
            for start in range(0, len(items), _BATCH):
                batch = items[start : start + _BATCH]
                contents = self._fetch([wanted for _, wanted in batch])
                for path, wanted in batch:
                    target = f"{directory}/{path}"
                    data = contents[wanted.digest]
                    if data is None:
                        large.append(partial(self._copy, wanted, target))
                        continue
                    _check(wanted, blake3(data).digest(), len(data))
                    _write_small(target, data)
                    on_transfer(1, wanted.size)
            run_transfers(large, on_transfer)
        return {path: Digest(wanted.digest.hex()) for path, wanted in items}

    def _copy(self, wanted: Wanted, path: str, on_bytes: OnBytes) -> None:
        source = self._open_file(wanted)
        try:
            target = create_target(path)
            try:
                found = copy_file(source, target, on_bytes, source_may_change=False)
            finally:
                os.close(target)
        finally:
            os.close(source)
        try:
            _check(wanted, *found)
        except CorruptStoreError:
            Path(path).unlink()
            raise

    def _open_file(self, wanted: Wanted) -> int:
        try:
            return open_source(self._home.object_file(wanted.digest))
        except OSError as error:
            raise _damaged(wanted, f"its file cannot be read: {error.strerror}") from error

    def _fetch(self, batch: Sequence[Wanted]) -> dict[bytes, bytes | None]:
        """The data of each content, or None when it is a file."""
        digests = list({wanted.digest for wanted in batch})
        with self._database.reading() as connection:
            rows = connection.execute(sql.select_data(len(digests)), digests).fetchall()
        contents: dict[bytes, bytes | None] = dict(rows)
        for wanted in batch:
            if wanted.digest not in contents:
                raise _damaged(wanted, "it is missing")
        return contents


def _write_small(path: str, data: bytes) -> None:
    target = create_target(path)
    try:
        write_whole(target, data)
    finally:
        os.close(target)


def _check(wanted: Wanted, digest: bytes, size: int) -> None:
    if digest != wanted.digest or size != wanted.size:
        raise _damaged(wanted, "it does not match its hash")


def _damaged(wanted: Wanted, reason: str) -> CorruptStoreError:
    return CorruptStoreError(
        f"the content {wanted.digest.hex()} of {wanted.object_name} is damaged: {reason}",
        hint="`perago store verify` shows all that is affected; restore the home from a backup",
    )

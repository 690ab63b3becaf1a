"""Sends one file in parts, and sees that the server made of them what the file is.

Invariant: an upload is completed only when the whole file was as scanned, and aborted if it is
not; what was completed is proven by the MD5 of every part, or read back.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from blake3 import blake3

from perago.adapters.lakefs.answers import damaged
from perago.adapters.lakefs.data_plane import DataPlane
from perago.adapters.lakefs.part_upload import NewObject, PartUpload
from perago.adapters.lakefs.parted_file import PartedFile, PartPlan
from perago.adapters.lakefs.transfers import OnBytes
from perago.adapters.lakefs.wire import CHUNK_BYTES
from perago.adapters.patience import TransientError
from perago.domain.errors import (
    CorruptStoreError,
    NotFoundInStoreError,
    PeragoError,
    StoreError,
    StoreUnavailableError,
)
from perago.domain.ids import Digest
from perago.ports import LocalFile

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class MultipartUpload:
    """One file on its way; its parts may be sent from many threads. Close it in the end."""

    def __init__(self, data: DataPlane, target: NewObject, file: LocalFile, plan: PartPlan) -> None:
        self._data = data
        self._target = target
        self._file = file
        self._plan = plan
        self._lock = threading.Lock()
        self._source: PartedFile | None = None
        self._upload: PartUpload | None = None
        self._refused = False
        self._failure: StoreUnavailableError | None = None
        self._etags: dict[int, str] = {}
        self._md5s: dict[int, bytes] = {}
        self._unproven: set[int] = set()

    def begin(self, on_bytes: OnBytes) -> bool:
        """Begin unless it has begun; whether the server takes parts of this file.

        Where the server is away, all that wait for this hear of it from the first that tried.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._upload is None and not self._refused:
                try:
                    self._begin(on_bytes)
                except StoreUnavailableError as error:
                    self._failure = error
                    raise
            return not self._refused

    def send(self, number: int, on_bytes: OnBytes) -> bool:
        """Send one part; whether it was the last one that was missing."""
        assert self._upload is not None
        assert self._source is not None
        body = self._source.body_of(number, on_bytes)
        etag = self._upload.send(number, body, body.size)
        with self._lock:
            self._note(number, etag, body.md5)
            return len(self._etags) == len(self._plan.numbers)

    def complete(self, on_bytes: OnBytes) -> None:
        """Make the object, and see that it is the file."""
        if len(self._unproven) < len(self._etags):
            for number in sorted(self._unproven):
                self._retry(partial(self.send, number, _silent(on_bytes)), on_bytes)
        self._retry(partial(self._complete, on_bytes), on_bytes)
        self.close()

    def close(self) -> None:
        """Let go of the file, and of an upload that was not completed."""
        source, self._source = self._source, None
        upload, self._upload = self._upload, None
        if source is not None:
            source.close()
        if upload is not None:
            try:
                upload.abort()
            except PeragoError as error:
                _log.warning("parts of an upload may be left on the server: %s", error.message)

    def _begin(self, on_bytes: OnBytes) -> None:
        source = PartedFile(self._file, self._plan)
        try:
            self._upload = self._retry(partial(self._data.begin_parts, self._target), on_bytes)
            self._source = source
        except StoreUnavailableError:
            raise
        except StoreError as error:
            # The server's API has the last word: it takes the file in one piece, or says why not.
            _log.warning("%s; sending it in one piece", error.message)
            self._refused = True
        finally:
            if self._source is None:
                source.close()

    def _retry(self, call: Callable[[], _Result], on_bytes: OnBytes) -> _Result:
        """Try again as long as there is patience, and nothing else has failed."""

        def call_unless_stopped() -> _Result:
            on_bytes(0)
            return call()

        return self._data.patience.retry(call_unless_stopped)

    def _note(self, number: int, etag: str, md5: bytes) -> None:
        """Keep what proves a part.

        An ETag that is not the MD5 comes from a block store that encrypts, or the part was
        garbled: surely so where another part has its MD5.
        """
        if etag != md5.hex():
            if len(self._unproven) < len(self._etags):
                raise garbled(self._target)
            self._unproven.add(number)
        else:
            self._unproven.discard(number)
        self._etags[number] = etag
        self._md5s[number] = md5

    def _complete(self, on_bytes: OnBytes) -> None:
        assert self._upload is not None
        is_there = partial(self._is_there, on_bytes)
        try:
            self._upload.complete([self._etags[number] for number in self._plan.numbers])
        except (TransientError, StoreError):
            # Where only the answer was lost, the upload is gone and the object is there.
            if not self._retry(is_there, on_bytes):
                raise
            self._upload = None
            return
        self._upload = None
        if not self._retry(is_there, on_bytes):
            raise garbled(self._target).error

    def _is_there(self, on_bytes: OnBytes) -> bool:
        """Whether the branch has the object, whole."""
        try:
            found = self._data.stat(self._target)
        except NotFoundInStoreError:
            return False
        if (found.size, found.digest) != (self._target.size, self._target.digest):
            return False
        return self._is_proven(found.checksum) or self._read_back(on_bytes) == found.digest

    def _is_proven(self, checksum: str) -> bool:
        """Whether a checksum is made of the MD5s of our parts.

        Some block stores have checksums of their own, for parts (those that encrypt) or for whole
        objects (Azure's): they prove nothing, and disprove nothing.
        """
        every = b"".join(self._md5s[number] for number in self._plan.numbers)
        expected = hashlib.md5(every, usedforsecurity=False).hexdigest()
        # The gateway leaves the number of parts away from the ETag, the API does not.
        return not self._unproven and checksum.partition("-")[0] == expected

    def _read_back(self, on_bytes: OnBytes) -> Digest:
        target, hasher = self._target, blake3()
        with self._data.open(
            target.repository, target.branch, target.path, size=target.size
        ) as body:
            while chunk := body.read(CHUNK_BYTES):
                hasher.update(chunk)
                on_bytes(0)
        return Digest(hasher.hexdigest())


def _silent(on_bytes: OnBytes) -> OnBytes:
    """The bytes of a part that is sent again were reported when it was sent first."""
    return lambda _count: on_bytes(0)


def garbled(target: NewObject) -> TransientError:
    """What was stored is something else."""
    return damaged(
        CorruptStoreError(
            f"what the server stored as {target.path!r} is not what was sent to it",
            hint="look at the network and at the server's disk; nothing was published",
        )
    )

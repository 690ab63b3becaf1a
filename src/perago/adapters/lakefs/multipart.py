"""Sends one file in parts, and sees that the server made of them what the file is.

Invariant: an upload is completed only when the whole file was as scanned, and aborted if it is
not; what was completed is proven by the MD5 of every part, or read back.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from functools import partial

from blake3 import blake3

from perago.adapters.lakefs.answers import TransientError, damaged
from perago.adapters.lakefs.data_plane import DataPlane
from perago.adapters.lakefs.part_upload import NewObject, PartUpload
from perago.adapters.lakefs.parted_file import PartedFile, PartPlan
from perago.adapters.lakefs.transfers import OnBytes
from perago.adapters.lakefs.wire import CHUNK_BYTES
from perago.domain.errors import (
    CorruptStoreError,
    NotFoundInStoreError,
    PeragoError,
    StoreError,
    StoreUnavailableError,
)
from perago.ports import LocalFile

_log = logging.getLogger(__name__)


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
        self._etags: dict[int, str] = {}
        self._md5s: dict[int, bytes] = {}
        self._unproven: set[int] = set()

    def begin(self) -> bool:
        """Begin unless it has begun; whether the server takes parts of this file."""
        with self._lock:
            if self._upload is None and not self._refused:
                self._upload = self._begin()
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

    def complete(self) -> None:
        """Make the object, and see that it is the file."""
        if len(self._unproven) < len(self._etags):
            for number in sorted(self._unproven):
                self._data.patience.retry(partial(self.send, number, _unheard))
        self._data.patience.retry(self._complete)
        self._upload = None
        self.close()
        if self._unproven:
            self._data.patience.retry(self._read_back)

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

    def _begin(self) -> PartUpload | None:
        self._source = self._source or PartedFile(self._file, self._plan)
        try:
            return self._data.begin_parts(self._target)
        except StoreUnavailableError:
            raise
        except StoreError as error:
            # The server's API has the last word: it takes the file in one piece, or says why not.
            _log.warning("%s; sending it in one piece", error.message)
            self._refused = True
            return None

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

    def _complete(self) -> None:
        assert self._upload is not None
        try:
            self._upload.complete([self._etags[number] for number in self._plan.numbers])
        except (TransientError, StoreError):
            # Where only the answer was lost, the upload is gone and the object is there.
            if not self._is_there():
                raise
            return
        if not self._is_there():
            raise garbled(self._target).error

    def _is_there(self) -> bool:
        """Whether the branch has the object, as far as the server's description tells."""
        try:
            found = self._data.stat(self._target)
        except NotFoundInStoreError:
            return False
        every = b"".join(self._md5s[number] for number in self._plan.numbers)
        expected = hashlib.md5(every, usedforsecurity=False).hexdigest()
        # The gateway leaves the number of parts away from the ETag, the API does not.
        proven = bool(self._unproven) or found.checksum.partition("-")[0] == expected
        return proven and (found.size, found.digest) == (self._target.size, self._target.digest)

    def _read_back(self) -> None:
        target, hasher = self._target, blake3()
        with self._data.open(
            target.repository, target.branch, target.path, size=target.size
        ) as body:
            while chunk := body.read(CHUNK_BYTES):
                hasher.update(chunk)
        if hasher.hexdigest() != target.digest:
            raise garbled(target).error


def _unheard(_count: int) -> None:
    """The bytes of a part that is sent again were reported when it was sent first."""


def garbled(target: NewObject) -> TransientError:
    """What was stored is something else."""
    return damaged(
        CorruptStoreError(
            f"what the server stored as {target.path!r} is not what was sent to it",
            hint="look at the network and at the server's disk; nothing was published",
        )
    )

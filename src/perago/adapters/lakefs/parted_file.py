"""Reads a file that goes up whole or in parts, from many threads, in flat memory.

Invariant: what is sent is what was scanned. A file in parts is read twice, the second time from the
page cache: once in order, for the digest of the whole file and one of every part, and once to send
the part, whose digest must be the same again before its last bytes go out. One that goes up whole
is read once, for its digest is known.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from blake3 import blake3

from perago.adapters.lakefs.transfers import OnBytes
from perago.adapters.localfs.copying import open_source
from perago.domain.errors import UnpublishableFileError
from perago.ports import LocalFile

_PIECE_BYTES = 128 * 1024
"""A time-out is for one piece, so a slow connection must get one through in that time."""

_MOST_PARTS = 10_000
"""What S3 allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPlan:
    """How a file is cut; parts count from 1, and all but the last have the same size."""

    size: int
    part_bytes: int

    @property
    def numbers(self) -> range:
        """The parts; an empty file has one."""
        return range(1, max(1, -(-self.size // self.part_bytes)) + 1)

    def span_of(self, number: int) -> tuple[int, int]:
        """Where a part begins, and where the next one does."""
        start = (number - 1) * self.part_bytes
        return start, min(start + self.part_bytes, self.size)


def plan_whole(size: int) -> PartPlan:
    """One part for all of a file."""
    return PartPlan(size=size, part_bytes=max(1, size))


def plan_parts(size: int, part_bytes: int) -> PartPlan:
    """Cut a file into parts of the size that is wished for, or larger ones if there are too many.

    The size of a part costs no memory.
    """
    return PartPlan(size=size, part_bytes=max(part_bytes, -(-size // _MOST_PARTS)))


class PartedFile:
    """An open file, read in parts."""

    def __init__(self, file: LocalFile, plan: PartPlan) -> None:
        self.file = file
        self.plan = plan
        self._lock = threading.Lock()
        self._whole = blake3()
        self._digests: list[bytes] = []
        try:
            self._descriptor = open_source(file.path)
        except OSError as error:
            refuse_file(file, error.strerror or str(error))

    def whole(self, on_bytes: OnBytes) -> PartBody:
        """All of the file to send, where it was cut into one part."""
        assert len(self.plan.numbers) == 1
        return PartBody(self, 1, bytes.fromhex(self.file.digest), on_bytes)

    def body_of(self, number: int, on_bytes: OnBytes) -> PartBody:
        """One part to send; the file is checked up to its end first."""
        with self._lock:
            while len(self._digests) < number:
                self._check_next()
        return PartBody(self, number, self._digests[number - 1], on_bytes)

    def read(self, number: int) -> Iterator[bytes]:
        """One part's content as it is now; an error where the file ends too early."""
        start, end = self.plan.span_of(number)
        while start < end:
            try:
                chunk = os.pread(self._descriptor, min(_PIECE_BYTES, end - start), start)
            except OSError as error:
                refuse_file(self.file, error.strerror or str(error))
            if not chunk:
                refuse_file(self.file, "its size changed")
            start += len(chunk)
            yield chunk

    def check_size(self) -> None:
        """See that the file is as long as it was."""
        if os.fstat(self._descriptor).st_size != self.file.size:
            refuse_file(self.file, "its size changed")

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def _check_next(self) -> None:
        number = len(self._digests) + 1
        part = blake3()
        for chunk in self.read(number):
            self._whole.update(chunk)
            part.update(chunk)
        if number == len(self.plan.numbers):
            self.check_size()
            if self._whole.hexdigest() != self.file.digest:
                refuse_file(self.file, "its content changed")
        self._digests.append(part.digest())


class PartBody:
    """The bytes of one part, hashed as they are sent; an error instead of the last ones where they
    are not as scanned.
    """

    def __init__(self, source: PartedFile, number: int, digest: bytes, on_bytes: OnBytes) -> None:
        self._source = source
        self._number = number
        self._digest = digest
        self._on_bytes = on_bytes
        self._md5 = hashlib.md5(usedforsecurity=False)
        start, end = source.plan.span_of(number)
        self.size = end - start

    @property
    def md5(self) -> bytes:
        """The MD5 of everything that was sent."""
        return self._md5.digest()

    def __iter__(self) -> Iterator[bytes]:
        hasher, left = blake3(), self.size
        if not left:
            self._check(hasher.digest())
        for chunk in self._source.read(self._number):
            hasher.update(chunk)
            self._md5.update(chunk)
            left -= len(chunk)
            if not left:
                self._check(hasher.digest())
            yield chunk
            self._on_bytes(len(chunk))

    def _check(self, digest: bytes) -> None:
        """See that all is as scanned, before the last bytes go out."""
        self._source.check_size()
        if digest != self._digest:
            refuse_file(self._source.file, "its content changed")


def refuse_file(file: LocalFile, reason: str) -> NoReturn:
    """Say that a file is not what it was when it was scanned."""
    raise UnpublishableFileError(
        f"{file.path} cannot be published: {reason} since it was scanned",
        path=str(file.path),
        hint="end everything that writes to the workspace before the body returns",
    )

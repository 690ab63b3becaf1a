"""A file in parts against a server that is away, refuses, or has checksums of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import cast

import pytest
from blake3 import blake3

from perago.adapters.lakefs.answers import Asked
from perago.adapters.lakefs.block_store import BlockStore
from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.lakefs.data_plane import DataPlane, StoredObject
from perago.adapters.lakefs.gateway_upload import GatewayUpload
from perago.adapters.lakefs.multipart import MultipartUpload
from perago.adapters.lakefs.part_upload import NewObject, PartUpload
from perago.adapters.lakefs.parted_file import plan_parts
from perago.adapters.lakefs.presigned_upload import PresignedUpload
from perago.adapters.lakefs.raw_api import RawApi
from perago.adapters.lakefs.wire import Answer, ObjectBody, Request, Wire
from perago.adapters.patience import Patience, RetryAfter, TransientError
from perago.domain.errors import (
    CorruptStoreError,
    NotFoundInStoreError,
    StoreAccessError,
    StoreError,
    StoreUnavailableError,
)
from perago.domain.ids import BranchName, CommitId, Digest, ObjectPath, RepositoryName
from perago.ports import LocalFile
from perago.testing.clock import FakeClock

CONTENT = b"0123456789" * 1000
PART_BYTES = 3000
PARTS = 4
AZURE_ETAG = "0x8DCB2E5A3F4C1D0"
TARGET = NewObject(
    repository=RepositoryName("repo"),
    branch=BranchName("branch"),
    path=ObjectPath("big"),
    size=len(CONTENT),
    digest=Digest(blake3(CONTENT).hexdigest()),
)
CONNECTION = LakeFSConnection(
    endpoint="http://127.0.0.1:1", access_key_id="key", secret_access_key="secret"
)


def busy() -> TransientError:
    return TransientError(StoreUnavailableError("busy"), RetryAfter())


def ignore(_count: int) -> None:
    pass


class Parts:
    """A `PartUpload` in memory."""

    def __init__(self) -> None:
        self.parts: dict[int, bytes] = {}
        self.stored: bytes | None = None
        self.completions = 0
        self.aborts = 0
        self.loses_answers = False
        self.garbles = False

    def send(self, number: int, body: Iterable[bytes], size: int) -> str:
        self.parts[number] = b"".join(body)
        assert len(self.parts[number]) == size
        return hashlib.md5(self.parts[number]).hexdigest()

    def complete(self, etags: Sequence[str]) -> None:
        self.completions += 1
        assert len(etags) == len(self.parts)
        self.stored = b"".join(self.parts[number] for number in sorted(self.parts))
        if self.garbles:
            self.stored = self.stored[:-1] + b"x"
        if self.loses_answers:
            raise busy()

    def abort(self) -> None:
        self.aborts += 1


class Lake(DataPlane):
    """A server that holds one object at the most."""

    def __init__(self, clock: FakeClock, *, seconds: float = 30) -> None:
        patience = Patience(seconds, elapsed=clock.elapsed, sleep=clock.sleep)
        super().__init__(CONNECTION, Wire(CONNECTION), patience)
        self.upload_in_parts = Parts()
        self.checksum: str | None = None
        self.refusals: list[Exception] = []
        self.begins = 0
        self.reads = 0

    def begin_parts(self, target: NewObject) -> PartUpload:
        assert target == TARGET
        self.begins += 1
        if self.refusals:
            raise self.refusals.pop()
        return self.upload_in_parts

    def stat(self, target: NewObject) -> StoredObject:
        found = self.upload_in_parts
        if found.stored is None:
            raise NotFoundInStoreError("nothing there")
        md5s = [hashlib.md5(found.parts[number]).digest() for number in sorted(found.parts)]
        computed = f"{hashlib.md5(b''.join(md5s)).hexdigest()}-{len(md5s)}"
        return StoredObject(
            size=len(found.stored), checksum=self.checksum or computed, digest=target.digest
        )

    @contextmanager
    def open(
        self,
        repository: RepositoryName,
        ref: CommitId | BranchName,
        path: ObjectPath,
        *,
        size: int = 0,
    ) -> Iterator[ObjectBody]:
        assert (repository, ref, path) == (TARGET.repository, TARGET.branch, TARGET.path)
        assert size == TARGET.size
        self.reads += 1
        yield cast(ObjectBody, BytesIO(self.upload_in_parts.stored or b""))


@pytest.fixture
def lake() -> Lake:
    return Lake(FakeClock())


@pytest.fixture
def file(tmp_path: Path) -> LocalFile:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return LocalFile(path=path, size=TARGET.size, digest=TARGET.digest)


def new_upload(lake: Lake, file: LocalFile) -> MultipartUpload:
    return MultipartUpload(lake, TARGET, file, plan_parts(file.size, PART_BYTES))


def send_all(lake: Lake, file: LocalFile) -> None:
    upload = new_upload(lake, file)
    try:
        assert upload.begin(ignore)
        sent = [upload.send(number, ignore) for number in range(1, PARTS + 1)]
        assert sent == [False] * (PARTS - 1) + [True]
        upload.complete(ignore)
    finally:
        upload.close()


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


# -- the beginning


def test_that_the_server_is_away_is_found_out_once_for_all_parts(file: LocalFile) -> None:
    lake = Lake(FakeClock(), seconds=0)
    lake.refusals = [busy() for _ in range(PARTS)]
    upload = new_upload(lake, file)

    for _ in range(PARTS):
        with pytest.raises(StoreUnavailableError, match="busy"):
            upload.begin(ignore)

    assert lake.begins == 1


def test_a_beginning_that_fails_for_a_while_succeeds(lake: Lake, file: LocalFile) -> None:
    lake.refusals = [busy(), busy()]

    send_all(lake, file)

    assert lake.begins == 3
    assert lake.upload_in_parts.stored == CONTENT


def test_a_beginning_ends_when_all_is_to_stop(lake: Lake, file: LocalFile) -> None:
    lake.refusals = [busy() for _ in range(9)]

    class StoppedError(Exception):
        pass

    def stop_after_two(_count: int) -> None:
        if lake.begins == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        new_upload(lake, file).begin(stop_after_two)

    assert lake.begins == 2


@pytest.mark.parametrize(
    "error", [StoreAccessError("no"), StoreUnavailableError("away"), RuntimeError("bug")]
)
def test_no_file_stays_open_where_nothing_began(
    lake: Lake, file: LocalFile, error: Exception
) -> None:
    lake.refusals = [error]
    upload = new_upload(lake, file)
    before = open_files()

    if isinstance(error, StoreAccessError):
        assert not upload.begin(ignore)
    else:
        with pytest.raises(type(error)):
            upload.begin(ignore)

    assert open_files() == before


# -- the end


def test_a_checksum_made_of_the_parts_needs_no_reading(lake: Lake, file: LocalFile) -> None:
    send_all(lake, file)

    assert lake.reads == 0
    assert (lake.upload_in_parts.completions, lake.upload_in_parts.aborts) == (1, 0)


@pytest.mark.parametrize("loses_answers", [False, True])
def test_an_object_with_a_checksum_of_another_kind_is_read_back(
    lake: Lake, file: LocalFile, loses_answers: bool
) -> None:
    lake.checksum = AZURE_ETAG
    lake.upload_in_parts.loses_answers = loses_answers

    send_all(lake, file)

    assert lake.reads == 1
    assert (lake.upload_in_parts.completions, lake.upload_in_parts.aborts) == (1, 0)


def test_an_object_with_a_checksum_of_another_kind_must_hold_what_was_sent(
    lake: Lake, file: LocalFile
) -> None:
    lake.checksum = AZURE_ETAG
    lake.upload_in_parts.garbles = True

    with pytest.raises(CorruptStoreError, match="is not what was sent"):
        send_all(lake, file)

    assert (lake.reads, lake.upload_in_parts.completions) == (1, 1)


# -- giving up


class AwayWire(Wire):
    """Counts what would be sent."""

    sent = 0

    def send(self, request: Request, asked: Asked, *, expected: int | None = None) -> Answer:
        self.sent += 1
        raise busy()


@pytest.mark.parametrize("kind", ["gateway", "presigned"])
def test_an_upload_is_given_up_with_one_request(kind: str) -> None:
    wire = AwayWire(CONNECTION)
    upload: PartUpload
    if kind == "gateway":
        upload = GatewayUpload(CONNECTION, wire, TARGET)
    else:
        api = RawApi(CONNECTION, wire)
        upload = PresignedUpload(api, BlockStore(CONNECTION), TARGET, timeout_seconds=1)

    with pytest.raises(StoreError, match="busy"):
        upload.abort()

    assert wire.sent == 1

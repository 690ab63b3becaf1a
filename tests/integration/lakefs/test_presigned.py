"""Objects that go between this host and the block store, at addresses that lakeFS signed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perago.adapters.lakefs import LakeFSConnection
from perago.adapters.lakefs.block_store import PRESIGNED_BYTES
from perago.adapters.servers import Binary, LakeFSServer, LakeFSState, ThrowawayLakeFS
from perago.domain.errors import (
    CorruptStoreError,
    StoreAccessError,
    StoreUnavailableError,
    UnpublishableFileError,
)
from tests.fault_proxy import Answer, Fault, LoseResponse, Match
from tests.integration.lakefs.big_lake import MAIN, BigLake, big_lake, content
from tests.integration.lakefs.tiny_s3 import TinyS3, tiny_s3
from tests.lakefs_server import connection_to

pytestmark = pytest.mark.lakefs

MIB = 1 << 20
PART_BYTES = 5 * MIB
SIZE = 2 * PART_BYTES + 7
PARTS = 3
WHOLE = Match("POST", r"/objects\?path=")
DOWNLOAD = Match("GET", r"/objects\?path=")
SIGN_PART = Match("PUT", r"/parts/\d+\?")
COMPLETE = Match("PUT", r"/pmpu/[^/?]+\?")
ABORT = Match("DELETE", r"/pmpu/")
GATEWAY = Match(None, r"^/big-")


class LakeFSOnS3(LakeFSServer):
    """A lakeFS server whose block store is an S3 server."""

    s3_endpoint: str

    def _variables(self, state: LakeFSState) -> dict[str, str]:
        return super()._variables(state) | {
            "LAKEFS_BLOCKSTORE_TYPE": "s3",
            "LAKEFS_BLOCKSTORE_S3_ENDPOINT": self.s3_endpoint,
            "LAKEFS_BLOCKSTORE_S3_FORCE_PATH_STYLE": "true",
            "LAKEFS_BLOCKSTORE_S3_REGION": "us-east-1",
            "LAKEFS_BLOCKSTORE_S3_DISCOVER_BUCKET_REGION": "false",
            "LAKEFS_BLOCKSTORE_S3_CREDENTIALS_ACCESS_KEY_ID": "block-store-key",
            "LAKEFS_BLOCKSTORE_S3_CREDENTIALS_SECRET_ACCESS_KEY": "block-store-secret",
        }


@pytest.fixture(scope="module")
def block_store() -> Iterator[TinyS3]:
    with tiny_s3() as s3:
        yield s3


@pytest.fixture(scope="module")
def connection(
    block_store: TinyS3, lakefs_binary: Binary, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LakeFSConnection]:
    server = LakeFSOnS3(tmp_path_factory.mktemp("on-s3") / "server", tied=True)
    server.s3_endpoint = block_store.endpoint
    state = server.start(lakefs_binary).state
    try:
        yield LakeFSConnection(
            endpoint=state.endpoint,
            access_key_id=state.access_key_id,
            secret_access_key=state.secret_access_key,
            storage_namespace="s3://bucket/lake",
            retry_seconds=3,
            part_bytes=PART_BYTES,
            presign=True,
        )
    finally:
        server.kill()


@pytest.fixture
def s3(block_store: TinyS3) -> TinyS3:
    """The block store, as if nothing had happened yet."""
    block_store.encrypts, block_store.garbles = False, set()
    block_store.refusal, block_store.hang_ups = None, 0
    block_store.visits.clear()
    block_store.uploads.clear()
    return block_store


@pytest.fixture
def lake(connection: LakeFSConnection, s3: TinyS3, tmp_path: Path) -> Iterator[BigLake]:
    with big_lake(connection, tmp_path) as lake:
        yield lake


def test_big_objects_go_straight_to_and_from_the_block_store(lake: BigLake, s3: TinyS3) -> None:
    file = lake.scan(content(SIZE))

    commit = lake.commit(file)

    entry = lake.find(commit)
    assert (entry.size, entry.digest) == (SIZE, file.digest)
    assert lake.read(commit) == content(SIZE)
    assert (len(s3.presigned("PUT")), len(s3.presigned("GET"))) == (PARTS, 1)
    assert (lake.sent(WHOLE), lake.sent(GATEWAY)) == (0, 0)
    assert (lake.moved.objects, lake.moved.bytes) == (2, 2 * SIZE)


def test_an_object_is_described_as_after_an_upload_in_one_piece(lake: BigLake) -> None:
    lake.commit(lake.scan(content(SIZE)))

    assert lake.content_type("big") == "application/octet-stream"


def test_no_credential_of_lakefs_reaches_the_block_store(lake: BigLake, s3: TinyS3) -> None:
    lake.read(lake.commit(lake.scan(content(SIZE))))

    ours = s3.presigned("PUT") + s3.presigned("GET")
    assert ours
    assert all("Authorization" not in visit.headers for visit in ours)
    assert lake.connection.secret_access_key not in str(s3.visits)
    assert lake.connection.access_key_id not in str(s3.visits)


def test_small_objects_go_through_the_server(lake: BigLake, s3: TinyS3) -> None:
    small = content(PRESIGNED_BYTES - 1)

    assert lake.read(lake.commit(lake.scan(small))) == small

    assert s3.presigned("PUT") + s3.presigned("GET") == []


def test_nothing_is_presigned_unless_it_was_asked_for(
    connection: LakeFSConnection, s3: TinyS3, tmp_path: Path
) -> None:
    with big_lake(replace(connection, presign=False), tmp_path) as lake:
        assert lake.read(lake.commit(lake.scan(content(SIZE)))) == content(SIZE)

    assert s3.presigned("PUT") + s3.presigned("GET") == []


def test_a_server_that_cannot_sign_addresses_is_used_without(
    lakefs_server: ThrowawayLakeFS, tmp_path: Path
) -> None:
    connection = replace(connection_to(lakefs_server), presign=True)
    with big_lake(connection, tmp_path) as lake:
        assert lake.read(lake.commit(lake.scan(content(SIZE)))) == content(SIZE)

        assert (lake.sent(WHOLE), lake.sent(SIGN_PART)) == (1, 0)


def test_the_completion_is_settled_by_looking_when_its_answer_is_lost(lake: BigLake) -> None:
    lake.proxy.add(Fault(match=COMPLETE, action=LoseResponse()))

    commit = lake.commit(lake.scan(content(SIZE)))

    assert (lake.sent(COMPLETE), lake.sent(ABORT)) == (1, 0)
    assert lake.read(commit) == content(SIZE)


def test_parts_that_cannot_be_completed_are_removed(lake: BigLake, s3: TinyS3) -> None:
    failing = Answer(status=500, body=b'{"message": "boom"}')
    lake.proxy.add(Fault(match=COMPLETE, action=failing, times=None))

    with pytest.raises(StoreUnavailableError, match="boom"):
        lake.commit(lake.scan(content(SIZE)))

    assert s3.uploads == {}


def test_a_file_that_changed_is_refused_and_its_parts_are_removed(
    lake: BigLake, s3: TinyS3
) -> None:
    file = lake.scan(content(SIZE))
    with file.path.open("ab") as stream:
        stream.write(b"x")

    with pytest.raises(UnpublishableFileError, match="its size changed"):
        lake.commit(file)

    assert s3.uploads == {}
    assert lake.sent(ABORT) == 1


# -- what the block store says of a part, in the server's gateway as well


@pytest.fixture(params=["presigned", "gateway"])
def either_way(
    request: pytest.FixtureRequest, connection: LakeFSConnection, s3: TinyS3, tmp_path: Path
) -> Iterator[BigLake]:
    presign = request.param == "presigned"
    connection = replace(connection, presign=presign, multipart_bytes=MIB, concurrency=1)
    with big_lake(connection, tmp_path) as lake:
        yield lake


def test_an_encrypting_block_store_is_read_back(either_way: BigLake, s3: TinyS3) -> None:
    lake = either_way
    s3.encrypts = True

    commit = lake.commit(lake.scan(content(SIZE)))

    assert lake.sent(DOWNLOAD) == 1
    assert lake.read(commit) == content(SIZE)


def test_what_an_encrypting_block_store_garbled_is_not_published(
    either_way: BigLake, s3: TinyS3
) -> None:
    lake = either_way
    head = lake.store.head(lake.repository, MAIN)
    s3.encrypts, s3.garbles = True, {1}

    with pytest.raises(CorruptStoreError, match="is not what was sent"):
        lake.commit(lake.scan(content(SIZE)))

    assert lake.store.head(lake.repository, MAIN) == head


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_garbled_part_is_sent_again_where_others_prove_that_it_was(
    either_way: BigLake, s3: TinyS3, number: int
) -> None:
    lake = either_way
    s3.garbles = {number}

    commit = lake.commit(lake.scan(content(SIZE)))

    assert s3.garbles == set()
    assert lake.sent(DOWNLOAD) == 0
    assert lake.read(commit) == content(SIZE)
    assert lake.moved.bytes == 2 * SIZE


# -- a block store that does not do it


def test_a_block_store_that_hangs_up_is_asked_again(lake: BigLake, s3: TinyS3) -> None:
    s3.hang_ups = 2
    commit = lake.commit(lake.scan(content(SIZE)))
    assert s3.hang_ups == 0

    s3.hang_ups = 2
    assert lake.read(commit) == content(SIZE)
    assert s3.hang_ups == 0


def test_a_refusal_of_the_block_store_is_told_without_its_address(
    lake: BigLake, s3: TinyS3, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    commit = lake.commit(lake.scan(content(SIZE)))
    expired = b"<Error><Message>Request has expired</Message><Extra>x</Extra></Error>"
    s3.refusal = (403, expired)

    with pytest.raises(StoreAccessError) as caught:
        lake.read(commit)

    assert caught.value.message.endswith("the block store forbids it: Request has expired")
    assert caught.value.hint is not None
    assert "lakefs_presign" in caught.value.hint
    assert "X-Amz-" not in f"{caught.value!r} {caplog.text}"

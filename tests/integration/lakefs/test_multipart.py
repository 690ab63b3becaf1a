"""Big files on a real lakeFS server: sent in parts, and read as others sent them.

What faults do to parts is in `test_parts.py`.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from perago.adapters.servers import ThrowawayLakeFS
from perago.domain.errors import CorruptStoreError, UnpublishableFileError
from perago.ports import LocalFile
from tests.fault_proxy import CallBefore, CorruptByte, CutRequest, Fault, Match
from tests.integration.lakefs.big_lake import MAIN, BigLake, big_lake, content
from tests.lakefs_server import connection_to

pytestmark = pytest.mark.lakefs

MIB = 1 << 20
PART_BYTES = 3 * MIB // 2
SIZE = 4 * PART_BYTES + 7
PARTS = 5

PART = Match("PUT", r"\?partNumber=")
COMPLETE = Match("POST", r"\?uploadId=")
ABORT = Match("DELETE", r"\?uploadId=")
WHOLE = Match("POST", r"/objects\?path=")
DOWNLOAD = Match("GET", r"/objects\?path=")


@pytest.fixture
def lake(lakefs_server: ThrowawayLakeFS, tmp_path: Path) -> Iterator[BigLake]:
    connection = replace(
        connection_to(lakefs_server),
        multipart_bytes=2 * MIB,
        part_bytes=PART_BYTES,
        concurrency=1,
    )
    with big_lake(connection, tmp_path) as lake:
        yield lake


def test_a_big_file_arrives_in_parts_with_its_digest(lake: BigLake) -> None:
    file = lake.scan(content(SIZE))

    commit = lake.commit(file)

    entry = lake.find(commit)
    assert (entry.path, entry.size, entry.digest) == ("big", SIZE, file.digest)
    assert lake.read(commit) == content(SIZE)
    assert (lake.sent(PART), lake.sent(COMPLETE), lake.sent(ABORT)) == (PARTS, 1, 0)
    assert lake.sent(WHOLE) == 0


def test_the_same_content_is_described_alike_in_parts_and_in_one_piece(lake: BigLake) -> None:
    types = []
    for size in (2 * MIB, 2 * MIB - 1):
        lake.commit(lake.scan(content(size)))
        types.append(lake.content_type("big"))

    assert lake.sent(PART) == 2
    assert lake.sent(WHOLE) == 1
    assert types == ["application/octet-stream"] * 2


@pytest.mark.parametrize("size", [2 * MIB - 1, 2 * MIB, 2 * PART_BYTES, 2 * PART_BYTES + 1])
def test_no_size_around_a_border_loses_a_byte(lake: BigLake, size: int) -> None:
    assert lake.read(lake.commit(lake.scan(content(size)))) == content(size)


@pytest.mark.parametrize("path", ["a b/ä+%&=#?", "a//b", "./a", "a/../b", "'\"<>|\\^`{}~*", "%2F"])
def test_a_big_file_may_have_any_name(lake: BigLake, path: str) -> None:
    commit = lake.commit(lake.scan(content(SIZE)), path)

    assert lake.find(commit).path == path
    assert lake.read(commit) == content(SIZE)


def test_a_big_file_counts_as_one_object_and_is_reported_as_it_goes(lake: BigLake) -> None:
    lake.commit(lake.scan(content(SIZE)))

    assert (lake.moved.objects, lake.moved.bytes) == (1, SIZE)
    assert lake.moved.reports > PARTS


def test_a_part_that_is_tried_again_is_not_reported_twice(lake: BigLake) -> None:
    lake.proxy.add(Fault(match=PART, action=CutRequest(after=MIB), times=2))

    lake.commit(lake.scan(content(SIZE)))

    assert lake.sent(PART) == PARTS + 2
    assert (lake.moved.objects, lake.moved.bytes) == (1, SIZE)


def test_the_parts_of_one_file_go_side_by_side(
    lakefs_server: ThrowawayLakeFS, tmp_path: Path
) -> None:
    connection = replace(connection_to(lakefs_server), multipart_bytes=0, part_bytes=PART_BYTES)
    with big_lake(connection, tmp_path) as lake:
        all_under_way = threading.Barrier(PARTS, timeout=60)
        lake.proxy.add(Fault(match=PART, action=CallBefore(callback=all_under_way.wait), times=5))

        commit = lake.commit(lake.scan(content(SIZE)))

        assert lake.read(commit) == content(SIZE)


# -- files that change


def append(file: LocalFile) -> None:
    with file.path.open("ab") as stream:
        stream.write(b"x")


def cut(file: LocalFile) -> None:
    with file.path.open("r+b") as stream:
        stream.truncate(SIZE - 1)


def change(file: LocalFile) -> None:
    with file.path.open("r+b") as stream:
        stream.seek(SIZE - 1)
        stream.write(bytes([content(SIZE)[-1] ^ 1]))


@pytest.mark.parametrize("alter", [append, cut, change])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_file_that_changed_since_the_scan_is_refused_and_its_parts_are_removed(
    lakefs_server: ThrowawayLakeFS, lake: BigLake, alter: Callable[[LocalFile], None], when: str
) -> None:
    head, left = lake.store.head(lake.repository, MAIN), part_files(lakefs_server)
    file = lake.scan(content(SIZE))
    if when == "before":
        alter(file)
    else:
        lake.proxy.add(Fault(match=PART, action=CallBefore(callback=lambda: alter(file))))

    with pytest.raises(UnpublishableFileError, match="changed since it was scanned"):
        lake.commit(file)

    assert lake.sent(PART) > 0
    assert (lake.sent(COMPLETE), lake.sent(ABORT), lake.sent(WHOLE)) == (0, 1, 0)
    assert part_files(lakefs_server) == left
    assert lake.store.head(lake.repository, MAIN) == head


def test_a_file_that_is_gone_since_the_scan_is_refused(lake: BigLake) -> None:
    file = lake.scan(content(SIZE))
    file.path.unlink()

    with pytest.raises(UnpublishableFileError, match="No such file"):
        lake.commit(file)


def part_files(server: ThrowawayLakeFS) -> set[Path]:
    """The parts that the server's local block store keeps."""
    blocks = server.log.parent / "blocks"
    assert blocks.is_dir()
    return {path for path in blocks.rglob("*") if re.fullmatch(r"[0-9a-f]{32}-\d{5}", path.name)}


# -- what others sent in parts: its checksum looks like an MD5, and is none


@pytest.mark.parametrize("sizes", [[3], [5 * MIB, 3], [6 * MIB]])
def test_objects_that_others_sent_in_parts_can_be_read(lake: BigLake, sizes: list[int]) -> None:
    parts = [content(size) for size in sizes]

    commit = lake.commit_as_others(parts)

    entry = lake.find(commit)
    assert entry.digest is None
    assert re.fullmatch(r"[0-9a-f]{32}", entry.checksum)
    assert entry.checksum != hashlib.md5(b"".join(parts)).hexdigest()
    assert lake.read(commit) == b"".join(parts)
    assert lake.moved.bytes == sum(sizes)


@pytest.mark.parametrize("times", [1, 2])
def test_an_object_of_parts_that_is_garbled_on_its_way_is_read_again(
    lake: BigLake, times: int
) -> None:
    parts = [content(5 * MIB), b"end"]
    commit = lake.commit_as_others(parts)
    # The first reading alone, or the reading that is to confirm it as well.
    for number in range(times):
        lake.proxy.add(Fault(match=DOWNLOAD, action=CorruptByte(offset=number)))

    assert lake.read(commit) == b"".join(parts)


def test_a_small_object_of_one_part_that_is_damaged_on_the_disk_is_refused(lake: BigLake) -> None:
    commit = lake.commit_as_others([b"content"])
    address = lake.find(commit).address
    assert address is not None
    Path(urlsplit(address).path).write_bytes(b"cOntent")

    with pytest.raises(CorruptStoreError, match="MD5"):
        lake.read(commit)

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from perago.adapters.lakefs.parted_file import PartedFile, plan_parts, plan_whole
from perago.domain.errors import UnpublishableFileError
from perago.domain.ids import Digest
from perago.ports import LocalFile

PART_BYTES = 1_500_000
CONTENT = random.Random(7).randbytes(3 * PART_BYTES + 5)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[PartedFile]:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    digest = Digest(blake3(CONTENT).hexdigest())
    file = LocalFile(path=path, size=len(CONTENT), digest=digest)
    source = PartedFile(file, plan_parts(file.size, PART_BYTES))
    yield source
    source.close()


@contextmanager
def whole(path: Path, content: bytes) -> Iterator[PartedFile]:
    """A file to send in one piece."""
    path.write_bytes(content)
    digest = Digest(blake3(content).hexdigest())
    file = LocalFile(path=path, size=len(content), digest=digest)
    source = PartedFile(file, plan_whole(file.size))
    yield source
    source.close()


def overwrite(source: PartedFile, offset: int, content: bytes) -> None:
    with source.file.path.open("r+b") as stream:
        stream.seek(offset)
        stream.write(content)


def ignore(_count: int) -> None:
    pass


@given(size=st.integers(0, 2**45), part_bytes=st.integers(1, 2**36))
def test_parts_cover_a_file_without_gap_or_overlap_and_are_not_too_many(
    size: int, part_bytes: int
) -> None:
    plan = plan_parts(size, part_bytes)

    numbers = plan.numbers
    assert 1 <= len(numbers) <= 10_000
    assert plan.part_bytes >= part_bytes
    assert plan.span_of(1)[0] == 0
    assert plan.span_of(numbers[-1])[1] == size
    for number in (1, len(numbers) // 2, len(numbers) - 1):
        if 1 <= number < len(numbers):
            start, end = plan.span_of(number)
            assert end - start == plan.part_bytes
            assert plan.span_of(number + 1)[0] == end


def test_parts_may_be_read_in_any_order_and_again(source: PartedFile) -> None:
    order = [4, 1, 3, 2, 4]
    reported: list[int] = []

    bodies = {number: source.body_of(number, reported.append) for number in order}
    read = {number: b"".join(body) for number, body in bodies.items()}

    assert b"".join(read[number] for number in (1, 2, 3, 4)) == CONTENT
    assert [bodies[number].size for number in (1, 4)] == [PART_BYTES, 5]
    assert bodies[2].md5 == hashlib.md5(read[2]).digest()
    assert sum(reported) == len(CONTENT)


def test_the_last_part_is_refused_where_any_part_was_not_as_scanned(source: PartedFile) -> None:
    overwrite(source, 3, b"other")

    source.body_of(3, ignore)
    with pytest.raises(UnpublishableFileError, match="its content changed"):
        source.body_of(4, ignore)


def test_a_part_that_changes_after_it_was_checked_does_not_go_out_whole(
    source: PartedFile,
) -> None:
    body = source.body_of(1, ignore)
    overwrite(source, PART_BYTES - 1, bytes([CONTENT[PART_BYTES - 1] ^ 1]))

    sent: list[bytes] = []
    with pytest.raises(UnpublishableFileError, match="its content changed"):
        sent.extend(body)

    assert 0 < sum(map(len, sent)) < PART_BYTES


def test_a_part_that_is_cut_after_it_was_checked_is_refused(source: PartedFile) -> None:
    body = source.body_of(2, ignore)
    os.truncate(source.file.path, PART_BYTES + 1)

    with pytest.raises(UnpublishableFileError, match="its size changed"):
        list(body)


def test_a_file_that_grew_is_refused(source: PartedFile) -> None:
    overwrite(source, len(CONTENT), b"more")

    with pytest.raises(UnpublishableFileError, match="its size changed"):
        source.body_of(4, ignore)


def test_a_link_in_place_of_the_file_is_refused(source: PartedFile, tmp_path: Path) -> None:
    path = source.file.path
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(UnpublishableFileError):
        PartedFile(source.file, source.plan)


def test_no_piece_is_larger_than_a_slow_connection_takes_within_a_time_out(
    source: PartedFile,
) -> None:
    assert max(map(len, source.body_of(1, ignore))) <= 128 * 1024


@pytest.mark.parametrize("content", [b"", b"x", CONTENT], ids=["empty", "tiny", "big"])
def test_a_whole_file_is_read_as_it_is(tmp_path: Path, content: bytes) -> None:
    reported: list[int] = []
    with whole(tmp_path / "file", content) as source:
        body = source.whole(reported.append)

        assert b"".join(body) == content
        assert (body.size, sum(reported)) == (len(content), len(content))
        assert body.md5 == hashlib.md5(content).digest()


@pytest.mark.parametrize("content", [b"", b"x", CONTENT], ids=["empty", "tiny", "big"])
def test_a_whole_file_that_grew_is_refused_before_its_last_byte(
    tmp_path: Path, content: bytes
) -> None:
    with whole(tmp_path / "file", content) as source:
        overwrite(source, len(content), b"more")

        sent: list[bytes] = []
        with pytest.raises(UnpublishableFileError, match="its size changed"):
            sent.extend(source.whole(ignore))

        assert sum(map(len, sent)) < max(1, len(content))


@pytest.mark.parametrize("offset", [0, len(CONTENT) - 1])
def test_a_whole_file_that_changed_is_refused_before_its_last_byte(
    tmp_path: Path, offset: int
) -> None:
    with whole(tmp_path / "file", CONTENT) as source:
        overwrite(source, offset, bytes([CONTENT[offset] ^ 1]))

        sent: list[bytes] = []
        with pytest.raises(UnpublishableFileError, match="its content changed"):
            sent.extend(source.whole(ignore))

        assert sum(map(len, sent)) < len(CONTENT)


def test_a_whole_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    with whole(tmp_path / "file", CONTENT) as source:
        os.truncate(source.file.path, len(CONTENT) - 1)

        with pytest.raises(UnpublishableFileError, match="its size changed"):
            list(source.whole(ignore))

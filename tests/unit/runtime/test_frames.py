"""Frames: whole payloads in, whole payloads out, and nothing else is taken for one."""

from __future__ import annotations

import struct

import pytest

from perago.runtime.frames import (
    LONGEST_FRAME_BYTES,
    BadFrameError,
    FrameReader,
    build_frame,
)

NONCE = bytes(range(16))
OTHER = bytes(reversed(range(16)))
PREFIX_BYTES = 20
"""Those that every frame of an attempt begins with."""


def read_all(data: bytes, piece: int) -> list[bytes]:
    """What a reader makes of bytes that come in pieces of this size."""
    reader, found = FrameReader(), []
    for start in range(0, len(data), piece):
        reader.feed(data[start : start + piece])
        while (payload := reader.next(NONCE)) is not None:
            found.append(payload)
    assert reader.is_between_frames
    return found


@pytest.mark.parametrize("piece", [1, 3, 24, 25, 1000])
def test_what_was_framed_is_read_however_it_was_cut(piece: int) -> None:
    payloads = [b"", b"a", b"PRG1" * 100, NONCE]
    data = b"".join(build_frame(NONCE, payload) for payload in payloads)
    assert read_all(data, piece) == payloads


def test_a_frame_is_head_nonce_length_payload() -> None:
    assert build_frame(NONCE, b"hello") == b"PRG1" + NONCE + b"\0\0\0\x05hello"


def between(reader: FrameReader) -> bool:
    return reader.is_between_frames


def test_a_frame_that_is_not_whole_waits() -> None:
    reader = FrameReader()
    assert between(reader)
    assert reader.next(NONCE) is None
    reader.feed(build_frame(NONCE, b"hello")[:-1])
    assert reader.next(NONCE) is None
    assert not between(reader)
    reader.feed(b"o" + build_frame(OTHER, b"next"))
    assert reader.next(NONCE) == b"hello"
    assert reader.next(OTHER) == b"next"
    assert between(reader)


@pytest.mark.parametrize("place", range(PREFIX_BYTES))
def test_a_forged_frame_is_refused_at_its_first_wrong_byte(place: int) -> None:
    frame = bytearray(build_frame(NONCE, b"hello"))
    frame[place] ^= 1
    reader = FrameReader()
    reader.feed(bytes(frame[:place]))
    assert reader.next(NONCE) is None
    reader.feed(bytes(frame[place : place + 1]))
    with pytest.raises(BadFrameError, match="no message of its executor"):
        reader.next(NONCE)


def test_a_frame_of_another_attempt_is_refused() -> None:
    reader = FrameReader()
    reader.feed(build_frame(OTHER, b"hello"))
    with pytest.raises(BadFrameError):
        reader.next(NONCE)


def test_what_comes_before_a_stray_is_read() -> None:
    reader = FrameReader()
    reader.feed(build_frame(NONCE, b"hello") + b"Traceback (most recent call last)")
    assert reader.next(NONCE) == b"hello"
    with pytest.raises(BadFrameError):
        reader.next(NONCE)


def test_a_length_that_is_too_large_is_refused_when_it_is_announced() -> None:
    """Five bytes that announce much cannot make anybody wait for it."""
    reader = FrameReader()
    reader.feed(b"PRG1" + NONCE + struct.pack("!I", LONGEST_FRAME_BYTES + 1))
    with pytest.raises(BadFrameError, match=f"{LONGEST_FRAME_BYTES + 1} bytes was announced"):
        reader.next(NONCE)


def test_the_longest_frame_may_be_announced_and_built() -> None:
    frame = build_frame(NONCE, bytes(LONGEST_FRAME_BYTES))
    reader = FrameReader()
    reader.feed(frame[:-1])
    assert reader.next(NONCE) is None
    reader.feed(frame[-1:])
    payload = reader.next(NONCE)
    assert payload is not None
    assert len(payload) == LONGEST_FRAME_BYTES == 16 * 1024 * 1024


def test_a_payload_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(BadFrameError, match="is too long"):
        build_frame(NONCE, bytes(LONGEST_FRAME_BYTES + 1))

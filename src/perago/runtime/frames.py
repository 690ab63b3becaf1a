"""Frames on the connection between a supervisor and an executor, as bytes.

A frame is a head, a nonce, a length and a payload. What an executor sends comes from a process that
runs a body, so the reader trusts nothing: a frame with another nonce, or one that is too long, is
refused at its first wrong byte, and nothing that a body writes by accident can swallow what comes
after it. A body can read its own nonce: this keeps out accidents and strays, not an enemy.
"""

from __future__ import annotations

import struct

NONCE_BYTES = 16
LONGEST_FRAME_BYTES = 16 << 20
"""Several times the largest output that an orchestrator takes."""

_HEAD = b"PRG1"
_LENGTH = struct.Struct("!I")
_PREFIX_BYTES = len(_HEAD) + NONCE_BYTES


class BadFrameError(Exception):
    """What came is no frame of Perago's; says why."""


def build_frame(nonce: bytes, payload: bytes) -> bytes:
    """Wrap a payload."""
    if len(payload) > LONGEST_FRAME_BYTES:
        raise BadFrameError(f"a message of {len(payload)} bytes is too long")
    return b"".join((_HEAD, nonce, _LENGTH.pack(len(payload)), payload))


class FrameReader:
    """Takes bytes as they come and gives back whole payloads."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def is_between_frames(self) -> bool:
        """Whether no part of a frame waits for its rest."""
        return not self._buffer

    def feed(self, data: bytes) -> None:
        """Add what was read."""
        self._buffer += data

    def next(self, nonce: bytes) -> bytes | None:
        """The next whole payload, which must carry this nonce; None until more is read.

        Raises `BadFrameError` as soon as the bytes cannot become such a frame.
        """
        buffer, prefix = self._buffer, _HEAD + nonce
        if buffer[:_PREFIX_BYTES] != prefix[: len(buffer)]:
            raise BadFrameError("bytes that are no message of its executor")
        start = _PREFIX_BYTES + _LENGTH.size
        if len(buffer) < start:
            return None
        (length,) = _LENGTH.unpack_from(buffer, _PREFIX_BYTES)
        if length > LONGEST_FRAME_BYTES:
            raise BadFrameError(f"a message of {length} bytes was announced")
        if len(buffer) < start + length:
            return None
        payload = bytes(buffer[start : start + length])
        del buffer[: start + length]
        return payload

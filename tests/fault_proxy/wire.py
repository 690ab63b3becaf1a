"""HTTP/1.1 on the wire: heads kept byte by byte, bodies as streams of pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

PIECE_BYTES = 64 * 1024


class ProtocolError(Exception):
    """A peer does not speak HTTP/1.1."""


@dataclass(frozen=True, slots=True)
class Head:
    """A start line and headers as they came: a signature covers some of them."""

    lines: tuple[bytes, ...]

    @property
    def start(self) -> list[str]:
        """The three parts of the start line; of a status line the last may be missing."""
        return self.lines[0].decode("latin-1").split(" ", 2)

    def get(self, name: str) -> str | None:
        """The value of a header."""
        for line in self.lines[1:]:
            key, _, value = line.decode("latin-1").partition(":")
            if key.lower() == name.lower():
                return value.strip()
        return None

    def with_header(self, name: str, value: str) -> Head:
        """This head with another value for a header that it has."""
        changed = (
            f"{name}: {value}".encode("latin-1")
            if line.lower().startswith(name.lower().encode() + b":")
            else line
            for line in self.lines
        )
        return replace(self, lines=tuple(changed))

    def encode(self) -> bytes:
        return b"\r\n".join(self.lines) + b"\r\n\r\n"

    @property
    def is_chunked(self) -> bool:
        return (self.get("Transfer-Encoding") or "").lower() == "chunked"

    @property
    def length(self) -> int | None:
        text = self.get("Content-Length")
        return None if text is None else int(text)

    @property
    def asks_to_close(self) -> bool:
        return (self.get("Connection") or "").lower() == "close"


@dataclass(frozen=True, slots=True)
class Body:
    """How many bytes follow a head: a number, chunks, or all until the connection ends."""

    length: int | None
    is_chunked: bool = False

    @property
    def ends_with_connection(self) -> bool:
        return self.length is None and not self.is_chunked


EMPTY = Body(0)


def request_body(head: Head) -> Body:
    """The body that follows a request's head."""
    return Body(None, is_chunked=True) if head.is_chunked else Body(head.length or 0)


def response_body(head: Head, method: str) -> Body:
    """The body that follows a response's head."""
    if method == "HEAD" or status_of(head) in {204, 304}:
        return EMPTY
    return Body(None, is_chunked=True) if head.is_chunked else Body(head.length)


def status_of(head: Head) -> int:
    return int(head.start[1])


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next head; None when the peer ended the connection between two messages."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    head = Head(tuple(raw[:-4].split(b"\r\n")))
    if b"HTTP/1." not in head.lines[0] or len(head.start) < 2:
        raise ProtocolError(f"not a start line of HTTP/1: {head.lines[0]!r}")
    return head


async def read_body(reader: asyncio.StreamReader, body: Body) -> AsyncIterator[bytes]:
    """The content, without the framing; raises `IncompleteReadError` when it ends too early."""
    if body.is_chunked:
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            async for piece in _read_exactly(reader, size):
                yield piece
            await reader.readexactly(2)
        # Trailers are dropped: a receiver may not depend on them.
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass
    elif body.length is not None:
        async for piece in _read_exactly(reader, body.length):
            yield piece
    else:
        while piece := await reader.read(PIECE_BYTES):
            yield piece


async def _read_exactly(reader: asyncio.StreamReader, size: int) -> AsyncIterator[bytes]:
    while size:
        piece = await reader.read(min(size, PIECE_BYTES))
        if not piece:
            raise asyncio.IncompleteReadError(b"", size)
        size -= len(piece)
        yield piece


async def write_body(
    writer: asyncio.StreamWriter, body: Body, pieces: AsyncIterator[bytes]
) -> None:
    """Send the content in the same framing, no faster than the peer takes it."""
    async for piece in pieces:
        if body.is_chunked:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        else:
            writer.write(piece)
        await writer.drain()
    if body.is_chunked:
        writer.write(b"0\r\n\r\n")
    await writer.drain()


async def finish(writer: asyncio.StreamWriter) -> None:
    """Close a connection once everything written is sent."""
    writer.close()
    await writer.wait_closed()

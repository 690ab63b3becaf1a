"""What can be done to a body on its way: each takes a stream of pieces and gives another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tests.fault_proxy.rules import Callback

_TICK_SECONDS = 0.05

Pieces = AsyncIterator[bytes]


class Cut(Exception):  # noqa: N818 - an intent, not an error
    """The connection ends here, on purpose."""


class CallbackError(Exception):
    """A callback raised; kept apart from what a broken connection raises."""


async def call(callback: Callback) -> None:
    """Call back without stopping the other connections."""
    try:
        await asyncio.to_thread(callback)
    except Exception as error:
        raise CallbackError(f"the callback of a fault raised {error!r}") from error


async def cut_after(pieces: Pieces, after: int) -> Pieces:
    left = after
    async for piece in pieces:
        if len(piece) >= left:
            if left:
                yield piece[:left]
            raise Cut
        left -= len(piece)
        yield piece
    raise Cut


async def truncate(pieces: Pieces, to: int) -> Pieces:
    left = to
    async for piece in pieces:
        # What is too much is still read: the server's connection lives on.
        kept, left = piece[:left], max(left - len(piece), 0)
        if kept:
            yield kept


async def corrupt(pieces: Pieces, offset: int) -> Pieces:
    passed = 0
    async for piece in pieces:
        at = offset - passed
        passed += len(piece)
        if 0 <= at < len(piece):
            yield piece[:at] + bytes([piece[at] ^ 0xFF]) + piece[at + 1 :]
        else:
            yield piece


async def trickle(pieces: Pieces, bytes_per_second: int) -> Pieces:
    step = max(1, int(bytes_per_second * _TICK_SECONDS))
    async for piece in pieces:
        for start in range(0, len(piece), step):
            part = piece[start : start + step]
            await asyncio.sleep(len(part) / bytes_per_second)
            yield part


async def call_after(pieces: Pieces, callback: Callback, after: int) -> Pieces:
    left = after
    is_called = False
    async for piece in pieces:
        if not is_called and len(piece) >= left:
            if left:
                yield piece[:left]
            await call(callback)
            is_called = True
            if rest := piece[left:]:
                yield rest
        else:
            left -= len(piece)
            yield piece
    if not is_called:
        await call(callback)


async def replay(content: bytes) -> Pieces:
    if content:
        yield content

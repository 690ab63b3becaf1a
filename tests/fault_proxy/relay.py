"""One client connection: request by request to the server and back, faults included.

The client's connection and the server's live and end together, as a cable would have it; so
whatever breaks on one side is seen on the other.
"""

from __future__ import annotations

import asyncio

from tests.fault_proxy.distortions import (
    Cut,
    Pieces,
    call,
    call_after,
    corrupt,
    cut_after,
    replay,
    trickle,
    truncate,
)
from tests.fault_proxy.rules import (
    Action,
    Answer,
    CallAfter,
    CallBefore,
    CallMidRequest,
    CallMidResponse,
    CorruptByte,
    CutBefore,
    CutRequest,
    CutResponse,
    DelayRequest,
    DelayResponse,
    LateRequest,
    LoseResponse,
    RuleBook,
    Trickle,
    Truncate,
)
from tests.fault_proxy.wire import (
    Body,
    Head,
    finish,
    read_body,
    read_head,
    request_body,
    response_body,
    status_of,
    write_body,
)

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Relay:
    """Serves one client connection until either side ends it."""

    def __init__(self, client: _Streams, address: tuple[str, int], book: RuleBook) -> None:
        self._reader, self._writer = client
        self._address = address
        self._book = book
        self._server: _Streams | None = None
        # The server's next head is awaited all the time, also between two requests: that is how
        # its end is noticed before the client sends another one into a dead connection.
        self._next_response: asyncio.Task[Head | None] | None = None

    async def run(self) -> None:
        """Relay until the client or the server has enough, or a fault cuts the connection."""
        try:
            while head := await self._next_request():
                number, action = self._book.begin(head.start[0], head.start[1])
                if not await self._exchange(head, number, action):
                    break
            await finish(self._writer)
        except (Cut, OSError, asyncio.IncompleteReadError):
            # What a fault or the other side broke is broken for both; the log tells.
            pass
        finally:
            await self._abort()

    async def _abort(self) -> None:
        self._writer.transport.abort()
        if self._server is not None:
            self._server[1].transport.abort()
        if self._next_response is not None:
            self._next_response.cancel()
            await asyncio.gather(self._next_response, return_exceptions=True)

    async def _next_request(self) -> Head | None:
        """The client's next request; None when it or the server has ended the connection."""
        request = asyncio.create_task(read_head(self._reader))
        try:
            waiting = {request, self._next_response} if self._next_response else {request}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if self._next_response is not None and self._next_response.done():
                return None
            return request.result()
        finally:
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)

    # -- one request

    async def _exchange(self, head: Head, number: int, action: Action | None) -> bool:
        """Handle one request; says whether the connection can take another."""
        match action:
            case Answer():
                return await self._answer(head, number, action)
            case CutBefore():
                raise Cut
            case CallBefore(callback=callback):
                await call(callback)
            case DelayRequest(seconds=seconds):
                await asyncio.sleep(seconds)
            case LateRequest(seconds=seconds):
                await self._forward_late(head, number, seconds)
                raise Cut
            case _:
                pass
        reader, writer = await self._connect()
        response = await self._forward(head, action, writer)
        self._book.answered(number, status_of(response))
        body = response_body(response, head.start[0])
        await self._respond(response, body, read_body(reader, body), action)
        if head.asks_to_close or response.asks_to_close or body.ends_with_connection:
            return False
        self._next_response = asyncio.create_task(read_head(reader))
        return True

    async def _forward_late(self, head: Head, number: int, seconds: float) -> None:
        body = request_body(head)
        content = b"".join([piece async for piece in read_body(self._reader, body)])
        self._writer.transport.abort()
        await asyncio.sleep(seconds)
        _, writer = await self._connect()
        writer.write(head.encode())
        await write_body(writer, body, replay(content))
        self._book.answered(number, status_of(await self._response_head()))

    async def _answer(self, head: Head, number: int, answer: Answer) -> bool:
        expects = head.get("Expect") is not None
        if not expects:
            async for _ in read_body(self._reader, request_body(head)):
                pass
        self._book.answered(number, answer.status)
        headers = [*answer.headers, ("Content-Length", str(len(answer.body)))]
        # A client that was refused before its body may send it or not: no telling what is next.
        is_last = expects or head.asks_to_close
        if is_last:
            headers.append(("Connection", "close"))
        lines = [f"HTTP/1.1 {answer.status} Fault", *(f"{name}: {text}" for name, text in headers)]
        self._writer.write(Head(tuple(line.encode("latin-1") for line in lines)).encode())
        if head.start[0] != "HEAD":
            self._writer.write(answer.body)
        await self._writer.drain()
        return not is_last

    async def _connect(self) -> _Streams:
        if self._server is None:
            self._server = await asyncio.open_connection(*self._address, limit=2**17)
            self._next_response = asyncio.create_task(read_head(self._server[0]))
        return self._server

    # -- to the server

    async def _forward(
        self, head: Head, action: Action | None, writer: asyncio.StreamWriter
    ) -> Head:
        """Send a request on; returns the head of its final response."""
        writer.write(head.encode())
        await writer.drain()
        if head.get("Expect") is not None:
            interim = await self._response_head()
            if status_of(interim) != 100:
                return interim
        body = request_body(head)
        pieces = _distort_request(read_body(self._reader, body), action)
        try:
            await write_body(writer, body, pieces)
        except Cut:
            # The half that the server gets is sent, not lost in a buffer.
            await finish(writer)
            raise
        while status_of(response := await self._response_head()) < 200:
            pass
        return response

    async def _response_head(self) -> Head:
        """The next head; an interim one is passed on at once."""
        assert self._server is not None
        assert self._next_response is not None
        head = await self._next_response
        if head is None:
            raise ConnectionResetError("the server ended the connection without an answer")
        self._next_response = None
        if status_of(head) < 200:
            self._next_response = asyncio.create_task(read_head(self._server[0]))
            self._writer.write(head.encode())
            await self._writer.drain()
        return head

    # -- to the client

    async def _respond(self, head: Head, body: Body, pieces: Pieces, action: Action | None) -> None:
        match action:
            case LoseResponse():
                async for _ in pieces:
                    pass
                raise Cut
            case DelayResponse(seconds=seconds):
                await asyncio.sleep(seconds)
            case CallAfter(callback=callback):
                content = b"".join([piece async for piece in pieces])
                await call(callback)
                pieces = replay(content)
            case Truncate(to=to) if body.length is not None:
                head = head.with_header("Content-Length", str(min(to, body.length)))
            case _:
                pass
        self._writer.write(head.encode())
        try:
            await write_body(self._writer, body, _distort_response(pieces, action))
        except Cut:
            await finish(self._writer)
            raise


def _distort_request(pieces: Pieces, action: Action | None) -> Pieces:
    match action:
        case CutRequest(after=after):
            return cut_after(pieces, after)
        case CallMidRequest(callback=callback, after=after):
            return call_after(pieces, callback, after)
        case _:
            return pieces


def _distort_response(pieces: Pieces, action: Action | None) -> Pieces:
    match action:
        case CutResponse(after=after):
            return cut_after(pieces, after)
        case CallMidResponse(callback=callback, after=after):
            return call_after(pieces, callback, after)
        case Trickle(bytes_per_second=rate):
            return trickle(pieces, rate)
        case CorruptByte(offset=offset):
            return corrupt(pieces, offset)
        case Truncate(to=to):
            return truncate(pieces, to)
        case _:
            return pieces

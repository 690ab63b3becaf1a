"""The proxy itself: an event loop in a thread, on a free loopback port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.fault_proxy.relay import Relay
from tests.fault_proxy.rules import Exchange, Fault, Match, RuleBook

_LOOPBACK = "127.0.0.1"
_CONTROL_SECONDS = 30


class FaultProxy:
    """Stands before the server at `upstream`; a context manager.

    Heads pass unchanged, `Host` too, for signatures cover it. Once `close` returns, no socket and
    no thread of it is left; it raises what went wrong inside, a callback's exceptions included.
    """

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        assert parts.hostname is not None
        assert parts.port is not None
        self._address = (parts.hostname, parts.port)
        self._book = RuleBook()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy")
        self._server: asyncio.Server | None = None
        self._relays: set[asyncio.Task[None]] = set()
        self._errors: list[Exception] = []
        self._port = 0

    # -- rules and log

    @property
    def endpoint(self) -> str:
        """Where clients connect."""
        return f"http://{_LOOPBACK}:{self._port}"

    def add(self, fault: Fault) -> None:
        """Add a fault; where several match, the one added first acts until its times are up."""
        self._book.add(fault)

    def clear(self) -> None:
        """Forget all faults; the log stays."""
        self._book.clear()

    @property
    def log(self) -> tuple[Exchange, ...]:
        """Every request so far, in the order of arrival."""
        return self._book.log

    def count(self, method: str | None, path: str) -> int:
        """How many requests so far were of this method and target."""
        match = Match(method, path)
        return sum(match.fits(exchange.method, exchange.target) for exchange in self.log)

    # -- listening

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()
        self.resume()

    def refuse(self) -> None:
        """Cut every connection and refuse new ones, until `resume`."""
        self._control(self._stop())

    def resume(self) -> None:
        """Listen again, on the same port."""
        self._control(self._listen())

    def close(self) -> None:
        """Cut every connection and end."""
        self._control(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        if self._errors:
            raise ExceptionGroup("the fault proxy failed", self._errors)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _control(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_CONTROL_SECONDS)

    async def _listen(self) -> None:
        assert self._server is None, "the proxy listens already"
        self._server = await asyncio.start_server(
            self._accept, _LOOPBACK, self._port, limit=2**17, backlog=512
        )
        self._port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        # A connection that was just accepted becomes a relay within a few rounds of the loop.
        await _rounds()
        relays = list(self._relays)
        for relay in relays:
            relay.cancel()
        await asyncio.gather(*relays, return_exceptions=True)
        # The transports that were aborted close their sockets in the next rounds of the loop.
        await _rounds()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = Relay((reader, writer), self._address, self._book)
        task = self._loop.create_task(relay.run())
        self._relays.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._relays.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._errors.append(error)


async def _rounds() -> None:
    for _ in range(5):
        await asyncio.sleep(0)

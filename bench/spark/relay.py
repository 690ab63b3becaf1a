"""Counts the bytes between a client and a server, whoever the client is and whatever it speaks.

The kernel keeps no such count for a process. Payload is counted as it passes, headers of HTTP and
all; what TCP adds is not.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

_BUFFER_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes from the client to the server, and back."""

    sent: int
    received: int

    @property
    def total(self) -> int:
        """Both ways."""
        return self.sent + self.received


class CountingRelay:
    """Listens on a free loopback port and passes everything on to a server."""

    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        assert parts.hostname is not None
        assert parts.port is not None
        self._server = parts.hostname, parts.port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._lock = threading.Lock()
        self._sent = self._received = 0
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []

    @property
    def endpoint(self) -> str:
        """Where a client finds it."""
        return "http://{}:{}".format(*self._listener.getsockname()[:2])

    @property
    def traffic(self) -> Traffic:
        """What has passed so far."""
        with self._lock:
            return Traffic(sent=self._sent, received=self._received)

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_exception: object) -> None:
        # Closing alone does not wake up a thread that waits on it.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            left = list(self._open)
        for each in left:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                server = socket.create_connection(self._server)
            except OSError:
                return
            with server:
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._lock:
                    self._open |= {client, server}
                back = threading.Thread(
                    target=self._pump, args=(server, client, self._count_received), daemon=True
                )
                back.start()
                self._pump(client, server, self._count_sent)
                back.join()
                with self._lock:
                    self._open -= {client, server}

    def _count_sent(self, size: int) -> None:
        with self._lock:
            self._sent += size

    def _count_received(self, size: int) -> None:
        with self._lock:
            self._received += size

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket, count: Callable[[int], None]) -> None:
        buffer = memoryview(bytearray(_BUFFER_BYTES))
        # A side that breaks off has its own way to say so: the other sees its connection end.
        with suppress(OSError):
            while size := source.recv_into(buffer):
                target.sendall(buffer[:size])
                count(size)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

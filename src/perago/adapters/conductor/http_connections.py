"""Kept HTTP connections to one server, on the standard library alone.

A worker's cost per task is mostly its HTTP client's (ADR 0009), and most of what a fuller client
does for each request is not needed to speak with one server. Invariant: a request is sent once,
on a connection that was alive a moment ago; nothing is followed, decoded or repeated here.
"""

from __future__ import annotations

import select
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPMessage, HTTPResponse, HTTPSConnection
from pathlib import Path

MOST_BYTES = 256 * 1024 * 1024
"""Of one answer: an instance of many steps, each with payloads of the size that a server keeps."""


class NotConnectedError(Exception):
    """The connection was never made, so the server did nothing; its cause says why."""


class AnswerTooLargeError(Exception):
    """The answer is larger than anything that is asked for here."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What the server said."""

    status: int
    headers: HTTPMessage
    data: bytes


class HttpConnections:
    """As many connections as are used at a time; safe to use from many threads."""

    def __init__(
        self,
        host: str,
        port: int | None,
        *,
        tls: bool,
        ca_file: Path | None,
        most_idle: int,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._most_bytes = most_bytes
        self._host = host
        self._port = port
        self._tls = ssl.create_default_context() if tls else None
        if self._tls is not None and ca_file is not None:
            self._tls.load_verify_locations(ca_file)
        self._most_idle = most_idle
        self._lock = threading.Lock()
        self._idle: list[HTTPConnection] = []

    def exchange(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        connect_seconds: float,
        read_seconds: float,
    ) -> HttpAnswer:
        """Send one request and read its answer; `NotConnectedError`, `OSError` or
        `HTTPException` where there is none.
        """
        connection = self._take() or self._connect(connect_seconds)
        try:
            connection.sock.settimeout(read_seconds)
            connection.request(method, target, body, dict(headers))
            found = connection.getresponse()
            answer = HttpAnswer(found.status, found.headers, self._read(found))
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        return answer

    def _read(self, found: HTTPResponse) -> bytes:
        # Only what has no length is read up to a number of bytes: there, being cut off is an error
        # still, while of a known length the library would take what there is.
        if found.length is None:
            data = found.read(self._most_bytes + 1)
        elif found.length <= self._most_bytes:
            return found.read()
        else:
            data = b""
        if found.length is not None or len(data) > self._most_bytes:
            raise AnswerTooLargeError(f"it has over {self._most_bytes:,} bytes")
        return data

    def close(self) -> None:
        """Close those that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> HTTPConnection | None:
        """A kept connection; the one used last is the likeliest to be alive."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if _is_quiet(connection):
                return connection
            connection.close()

    def _connect(self, seconds: float) -> HTTPConnection:
        connection: HTTPConnection
        if self._tls is None:
            connection = HTTPConnection(self._host, self._port, timeout=seconds)
        else:
            connection = HTTPSConnection(self._host, self._port, timeout=seconds, context=self._tls)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise NotConnectedError from error
        return connection

    def _give_back(self, connection: HTTPConnection) -> None:
        # The library closes the socket itself when the server wants no further request on it.
        with self._lock:
            if connection.sock is not None and len(self._idle) < self._most_idle:
                self._idle.append(connection)
                return
        connection.close()


def _is_quiet(connection: HTTPConnection) -> bool:
    """Whether nothing came since the last answer: what comes unasked is the end."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)

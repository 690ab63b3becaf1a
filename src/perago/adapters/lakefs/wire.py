"""Sends the HTTP requests that carry objects, streamed both ways, on connections that are kept.

On the standard library's client: for a thousand small objects Python itself is most of the cost,
and a client that does more costs twice as much (ADR 0007). Invariant: no redirect is followed
here, so a request's headers never reach a server that they were not made for.
"""

from __future__ import annotations

import json
import math
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from html import unescape
from http.client import HTTPConnection, HTTPMessage, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import NoReturn
from urllib.parse import urlsplit

from perago.adapters.lakefs.answers import (
    Asked,
    NotConnectedError,
    NotTrustedError,
    explain_nonsense,
    explain_status,
    translated,
)
from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.tls import speaks_no_tls

CHUNK_BYTES = 1 << 20
_CONNECT_SECONDS = 10.0
_MOST_BYTES = 64 << 20
"""What an answer that is read whole may take. A page of a listing has a thousand objects, each with
metadata of its own."""
_S3_ERROR_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request; its repr shows neither headers nor address, for both may hold a secret.

    The time-out bounds each wait for the other side, so that it does not depend on the size of a
    body. With `is_bounded` it also bounds all that comes before the request is sent, such as a slow
    handshake: what must not be sent late is then not sent at all.
    """

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | Iterable[bytes] | None = field(default=None, repr=False)
    timeout_seconds: float | None = None
    is_bounded: bool = False
    speaks_s3: bool = False
    """Whether errors are answered in S3's words instead of lakeFS's."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A small answer, read whole."""

    status: int
    headers: HTTPMessage
    data: bytes


@dataclass(frozen=True, slots=True)
class ObjectBody:
    """The body of an answer."""

    response: HTTPResponse
    asked: Asked

    def read(self, size: int) -> bytes:
        """At most that many bytes; none at its end."""
        with translated(self.asked):
            chunk = self.response.read(size)
            if not chunk and self.response.length:
                raise IncompleteRead(b"", self.response.length)
            return chunk


class Wire:
    """Connections to the addresses of one service; safe to use from many threads."""

    def __init__(self, connection: LakeFSConnection, *, trust_public: bool = False) -> None:
        """With `trust_public`, the usual certificate authorities count beside the given ones."""
        self._timeout_seconds = connection.timeout_seconds
        self._most_idle = connection.concurrency
        ca_file = str(connection.ca_file) if connection.ca_file else None
        self._tls = ssl.create_default_context(cafile=None if trust_public else ca_file)
        if trust_public and ca_file is not None:
            self._tls.load_verify_locations(cafile=ca_file)
        self._lock = threading.Lock()
        self._idle: dict[str, list[HTTPConnection]] = {}
        self._is_closed = False

    def send(self, request: Request, asked: Asked, *, expected: int | None = None) -> Answer:
        """Send a request and read its whole answer, which must be small.

        `expected` is the one status that is a success; None takes every 2xx for one. Another 2xx is
        no answer of this server's: whether it did anything is not known.
        """
        with self._exchange(request, asked) as response:
            with translated(asked):
                data = response.read(_MOST_BYTES + 1)
                if response.length and len(data) <= _MOST_BYTES:
                    raise IncompleteRead(data, response.length)
            if len(data) > _MOST_BYTES:
                raise explain_nonsense(asked, f"it is larger than {_MOST_BYTES >> 20} MiB")
            says_success = 200 <= response.status < 300
            if response.status != expected and not (expected is None and says_success):
                if says_success:
                    said = f"status {response.status} instead of {expected}"
                    raise explain_nonsense(asked, said)
                _refuse(request, response, data, asked)
            return Answer(status=response.status, headers=response.headers, data=data)

    @contextmanager
    def open(self, request: Request, asked: Asked) -> Iterator[ObjectBody]:
        """Send a request; the body of its answer, not yet read."""
        with self._exchange(request, asked) as response:
            body = ObjectBody(response, asked)
            if response.status != 200:
                _refuse(request, response, body.read(CHUNK_BYTES), asked)
            yield body

    def close(self) -> None:
        """Give the connections back."""
        with self._lock:
            self._is_closed = True
            idle = [one for kept in self._idle.values() for one in kept]
            self._idle.clear()
        for one in idle:
            one.close()

    @contextmanager
    def _exchange(self, request: Request, asked: Asked) -> Iterator[HTTPResponse]:
        """Send a request and wait for its answer; the connection is kept if both ended well."""
        parts = urlsplit(request.url)
        origin = f"{parts.scheme}://{parts.netloc}"
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        with translated(replace(asked, endpoint=origin)):
            timeout = request.timeout_seconds or self._timeout_seconds
            ends = time.monotonic() + timeout if request.is_bounded else math.inf
            connection = self._take(origin, ends)
            try:
                response = self._ask(connection, request, target, min(timeout, _left(ends)))
            except BaseException:
                connection.close()
                raise
        try:
            yield response
        finally:
            # What is left of a body would be taken for the next answer.
            if response.isclosed() and not response.will_close:
                self._keep(origin, connection)
            else:
                response.close()
                connection.close()

    def _ask(
        self, connection: HTTPConnection, request: Request, target: str, timeout_seconds: float
    ) -> HTTPResponse:
        connection.sock.settimeout(timeout_seconds)
        # A server that closed before it had all may have said why.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(request.method, target, body=request.body, headers=request.headers)
        return connection.getresponse()

    def _take(self, origin: str, ends: float) -> HTTPConnection:
        """A connection on which nothing was sent yet; made by then, or it is no connection."""
        while (kept := self._pop_idle(origin)) is not None:
            # One that can be read from was closed by the other side, as proxies do after a while.
            if not _can_be_read(kept.sock):
                return kept
            kept.close()
        parts = urlsplit(origin)
        connect_seconds = min(_CONNECT_SECONDS, self._timeout_seconds, _left(ends))
        connection: HTTPConnection
        if parts.scheme == "https":
            connection = HTTPSConnection(
                parts.netloc, timeout=connect_seconds, context=self._tls, blocksize=CHUNK_BYTES
            )
        else:
            connection = HTTPConnection(
                parts.netloc, timeout=connect_seconds, blocksize=CHUNK_BYTES
            )
        try:
            connection.connect()
            # The bound of a connection is for each address and each step of the handshake.
            _left(ends)
        except BaseException as error:
            connection.close()
            if (told := _explain_no_connection(error)) is not error:
                raise told from error
            raise
        return connection

    def _pop_idle(self, origin: str) -> HTTPConnection | None:
        with self._lock:
            kept = self._idle.get(origin)
            return kept.pop() if kept else None

    def _keep(self, origin: str, connection: HTTPConnection) -> None:
        with self._lock:
            kept = self._idle.setdefault(origin, [])
            if not self._is_closed and len(kept) < self._most_idle:
                kept.append(connection)
                return
        connection.close()


def _can_be_read(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _left(ends: float) -> float:
    """The seconds until then; nothing is sent when there are none."""
    left = ends - time.monotonic()
    if left <= 0:
        raise NotConnectedError("the time for it was over before the connection was made")
    return left


def _explain_no_connection(error: BaseException) -> BaseException:
    """What to raise where a connection could not be made: nothing was sent."""
    match error:
        case NotConnectedError():
            return error
        case ssl.SSLError() if isinstance(error, ssl.SSLCertVerificationError) or speaks_no_tls(
            error
        ):
            return NotTrustedError(str(error))
        case ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            return NotConnectedError(str(error))
        case ssl.SSLError():
            return error
        case OSError():
            return NotConnectedError(str(error))
        case _:
            return error


def _refuse(request: Request, response: HTTPResponse, body: bytes, asked: Asked) -> NoReturn:
    words = _translate_s3(body) if request.speaks_s3 else body
    raise explain_status(response.status, words, asked, response.headers.get("Retry-After"))


def _translate_s3(body: bytes) -> bytes:
    """What S3 says of an error, in the form of lakeFS's API."""
    _, begins, rest = body[:_S3_ERROR_BYTES].partition(b"<Message>")
    said, ends, _ = rest.partition(b"</Message>")
    if not begins or not ends:
        return body
    return json.dumps({"message": unescape(said.decode("utf-8", "replace"))}).encode()

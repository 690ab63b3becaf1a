"""Sends the HTTP requests that carry objects, streamed both ways, on connections that are kept.

On the standard library's client: for a thousand small objects Python itself is most of the cost,
and a client that does more costs twice as much (ADR 0007). Invariant: no redirect is followed
here, so a request's headers never reach a server that they were not made for.
"""

from __future__ import annotations

import json
import re
import select
import socket
import ssl
import threading
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
    explain_nonsense,
    explain_status,
    translated,
)
from perago.adapters.lakefs.connection import LakeFSConnection

CHUNK_BYTES = 1 << 20
_CONNECT_SECONDS = 10.0
_MOST_BYTES = 64 << 20
"""What an answer that is read whole may take. A page of a listing has a thousand objects, each with
metadata of its own."""
_S3_MESSAGE = re.compile(rb"<Message>(.*?)</Message>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request; its repr shows neither headers nor address, for both may hold a secret."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | Iterable[bytes] | None = field(default=None, repr=False)
    timeout_seconds: float | None = None


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
        ca_file = str(connection.ca_file) if connection.ca_file else None
        self._tls = ssl.create_default_context(cafile=None if trust_public else ca_file)
        if trust_public and ca_file is not None:
            self._tls.load_verify_locations(cafile=ca_file)
        self._lock = threading.Lock()
        self._idle: dict[str, list[HTTPConnection]] = {}

    def send(self, request: Request, asked: Asked, *, expected: int | None = None) -> Answer:
        """Send a request and read its whole answer, which must be small.

        `expected` is the one status that is a success; None takes every 2xx for one.
        """
        with self._exchange(request, asked) as response:
            with translated(asked):
                data = response.read(_MOST_BYTES + 1)
                if response.length and len(data) <= _MOST_BYTES:
                    raise IncompleteRead(data, response.length)
            if len(data) > _MOST_BYTES:
                raise explain_nonsense(asked, f"it is larger than {_MOST_BYTES >> 20} MiB")
            successes = range(200, 300) if expected is None else (expected,)
            if response.status not in successes:
                _refuse(response, data, asked)
            return Answer(status=response.status, headers=response.headers, data=data)

    @contextmanager
    def open(self, request: Request, asked: Asked) -> Iterator[ObjectBody]:
        """Send a request; the body of its answer, not yet read."""
        with self._exchange(request, asked) as response:
            body = ObjectBody(response, asked)
            if response.status != 200:
                _refuse(response, body.read(CHUNK_BYTES), asked)
            yield body

    def close(self) -> None:
        """Give the connections back."""
        with self._lock:
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
            connection = self._take(origin)
            try:
                response = self._ask(connection, request, target)
            except BaseException:
                connection.close()
                raise
        is_whole = False
        try:
            yield response
            # What is left of a body would be taken for the next answer.
            is_whole = response.isclosed() and not response.will_close
        finally:
            if is_whole:
                self._keep(origin, connection)
            else:
                response.close()
                connection.close()

    def _ask(self, connection: HTTPConnection, request: Request, target: str) -> HTTPResponse:
        # The bound is between two pieces of a body, so it does not depend on its size.
        connection.sock.settimeout(request.timeout_seconds or self._timeout_seconds)
        # A server that closed before it had all may have said why.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(request.method, target, body=request.body, headers=request.headers)
        return connection.getresponse()

    def _take(self, origin: str) -> HTTPConnection:
        while (kept := self._pop_idle(origin)) is not None:
            # One that can be read from was closed by the other side, as proxies do after a while.
            if not _can_be_read(kept.sock):
                return kept
            kept.close()
        parts = urlsplit(origin)
        connect_seconds = min(_CONNECT_SECONDS, self._timeout_seconds)
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
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            raise NotConnectedError(str(error)) from error
        except ssl.SSLError:
            raise
        except OSError as error:
            raise NotConnectedError(str(error)) from error
        return connection

    def _pop_idle(self, origin: str) -> HTTPConnection | None:
        with self._lock:
            kept = self._idle.get(origin)
            return kept.pop() if kept else None

    def _keep(self, origin: str, connection: HTTPConnection) -> None:
        with self._lock:
            self._idle.setdefault(origin, []).append(connection)


def _can_be_read(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def _refuse(response: HTTPResponse, body: bytes, asked: Asked) -> NoReturn:
    raise explain_status(response.status, _words(body), asked, response.headers.get("Retry-After"))


def _words(body: bytes) -> bytes:
    """What an error says in the form of lakeFS's API, also where S3 said it."""
    found = _S3_MESSAGE.search(body)
    if found is None:
        return body
    return json.dumps({"message": unescape(found[1].decode("utf-8", "replace"))}).encode()

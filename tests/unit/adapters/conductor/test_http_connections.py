"""Connections that are kept, and those that are not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from perago.adapters.conductor.http_connections import (
    AnswerTooLargeError,
    HttpAnswer,
    HttpConnections,
    NotConnectedError,
)

LOOPBACK = "127.0.0.1"
KEEP = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CLOSE = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers as it is told; a script has the answers of each connection, which then ends."""

    def __init__(self, *scripts: tuple[bytes, ...]) -> None:
        self._listening = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listening.getsockname()[1]
        self.requests: list[tuple[int, bytes]] = []
        self.ended = [threading.Event() for _ in scripts]
        self._thread = threading.Thread(target=self._serve, args=(scripts,))
        self._thread.start()

    def _serve(self, scripts: tuple[tuple[bytes, ...], ...]) -> None:
        for number, answers in enumerate(scripts):
            connection, _ = self._listening.accept()
            with connection:
                for answer in answers:
                    self.requests.append((number, connection.recv(65536)))
                    connection.sendall(answer)
            self.ended[number].set()

    def join(self) -> None:
        self._thread.join()
        self._listening.close()


@contextmanager
def connections_to(port: int, *, most_bytes: int = 1000) -> Iterator[HttpConnections]:
    found = HttpConnections(
        LOOPBACK, port, tls=False, ca_file=None, most_idle=2, most_bytes=most_bytes
    )
    yield found
    found.close()


def ask(connections: HttpConnections, *, read_seconds: float = 30) -> HttpAnswer:
    return connections.exchange(
        "GET", "/x", {"Accept": "*/*"}, None, connect_seconds=30, read_seconds=read_seconds
    )


def test_a_connection_is_used_again() -> None:
    server = Server((KEEP, KEEP))
    with connections_to(server.port) as connections:
        assert [ask(connections).data, ask(connections).data] == [b"ok", b"ok"]
    server.join()
    assert [number for number, _ in server.requests] == [0, 0]


@pytest.mark.parametrize("answer", [KEEP, CLOSE], ids=["cut while idle", "announced"])
def test_one_that_the_server_closed_is_replaced(answer: bytes) -> None:
    server = Server((answer,), (KEEP,))
    with connections_to(server.port) as connections:
        ask(connections)
        server.ended[0].wait()
        assert ask(connections).status == 200
    server.join()
    assert [number for number, _ in server.requests] == [0, 1]


def test_one_that_failed_is_not_kept() -> None:
    server = Server((b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut",), (KEEP,))
    with connections_to(server.port) as connections:
        with pytest.raises(Exception, match="IncompleteRead"):
            ask(connections)
        assert ask(connections).data == b"ok"
    server.join()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\nok"


@pytest.mark.parametrize(
    "answer", [KEEP, CHUNKED, ENDLESS], ids=["length", "chunked", "to the end"]
)
@pytest.mark.parametrize(("most", "is_taken"), [(2, True), (1, False)])
def test_an_answer_is_read_up_to_a_size(answer: bytes, most: int, *, is_taken: bool) -> None:
    server = Server((answer,), (KEEP,))
    with connections_to(server.port, most_bytes=most) as connections:
        if is_taken:
            assert ask(connections).data == b"ok"
        else:
            with pytest.raises(AnswerTooLargeError, match="over 1 bytes"):
                ask(connections)
    socket.create_connection((LOOPBACK, server.port)).close()
    server.join()


def test_chunked_answers_keep_their_connection() -> None:
    server = Server((CHUNKED, CHUNKED))
    with connections_to(server.port) as connections:
        assert [ask(connections).data, ask(connections).data] == [b"ok", b"ok"]
    server.join()


def test_a_request_is_sent_once_though_its_answer_is_cut() -> None:
    server = Server((KEEP, b""), ())
    with connections_to(server.port) as connections:
        ask(connections)
        with pytest.raises(ConnectionError):
            ask(connections)
        socket.create_connection((LOOPBACK, server.port)).close()
    server.join()
    assert len(server.requests) == 2


def test_nobody_there_is_told_from_no_answer() -> None:
    with socket.create_server((LOOPBACK, 0)) as listening:
        port = listening.getsockname()[1]
    with connections_to(port) as connections, pytest.raises(NotConnectedError) as raised:
        ask(connections)
    assert isinstance(raised.value.__cause__, ConnectionRefusedError)


def test_a_silent_server_is_waited_for_no_longer_than_said() -> None:
    with (
        socket.create_server((LOOPBACK, 0)) as listening,
        connections_to(listening.getsockname()[1]) as connections,
        pytest.raises(TimeoutError),
    ):
        ask(connections, read_seconds=0.05)

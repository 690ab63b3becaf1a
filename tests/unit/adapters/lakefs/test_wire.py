"""Connections that are kept: given up where the other side has, over plain HTTP and over TLS."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import trustme

from perago.adapters.lakefs.answers import Asked
from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.lakefs.wire import Request, Wire
from perago.adapters.patience import TransientError
from perago.domain.errors import (
    NotFoundInStoreError,
    OutcomeUnknownError,
    PeragoError,
    StoreError,
)

READ = Asked(what="read", missing="nothing")
CHANGE = Asked(what="merge", missing="nothing", changes=True)
CONCURRENCY = 2
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"
HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\nbody"

Script = list[tuple[bytes, ...]]
"""For each connection, the answers to its requests; then the server hangs up."""


@dataclass(slots=True)
class Server:
    """Answers by its script, one connection after another."""

    script: Script
    tls: ssl.SSLContext | None
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    served: int = 0
    hung_up: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    @property
    def endpoint(self) -> str:
        scheme = "https" if self.tls else "http"
        return f"{scheme}://localhost:{self.listener.getsockname()[1]}"

    def serve(self) -> None:
        for answers in self.script:
            raw, _ = self.listener.accept()
            raw.settimeout(30)
            with raw if self.tls is None else self.tls.wrap_socket(raw, server_side=True) as peer:
                self.served += 1
                for answer in answers:
                    _read_request(peer)
                    peer.sendall(answer)
            self.hung_up.release()


def _read_request(peer: socket.socket) -> None:
    read = b""
    while b"\r\n\r\n" not in read:
        chunk = peer.recv(65536)
        if not chunk:
            raise ConnectionError("the client hung up")
        read += chunk


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


Start = Callable[[Script], tuple[Wire, Server]]


@pytest.fixture(params=["http", "https"])
def start(request: pytest.FixtureRequest, authority: trustme.CA, tmp_path: Path) -> Iterator[Start]:
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    tls = None
    if request.param == "https":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(tls)
    running: list[tuple[Wire, Server, threading.Thread]] = []

    def start(script: Script) -> tuple[Wire, Server]:
        server = Server(script, tls)
        wire = Wire(_connection(server, ca_file))
        thread = threading.Thread(target=server.serve)
        thread.start()
        running.append((wire, server, thread))
        return wire, server

    yield start
    for wire, server, thread in running:
        wire.close()
        thread.join(30)
        server.listener.close()


def _connection(server: Server, ca_file: Path | None) -> LakeFSConnection:
    return LakeFSConnection(
        endpoint=server.endpoint,
        access_key_id="key",
        secret_access_key="secret",
        ca_file=ca_file,
        timeout_seconds=10,
        concurrency=CONCURRENCY,
    )


def get(server: Server) -> Request:
    return Request(method="GET", url=f"{server.endpoint}/", headers={})


def test_a_connection_is_kept_for_the_next_request(start: Start) -> None:
    wire, server = start([(WHOLE, WHOLE)])
    for _ in range(2):
        assert wire.send(get(server), READ, expected=200).data == b"body"
    assert server.served == 1


def test_a_kept_connection_that_the_other_side_closed_is_not_used(start: Start) -> None:
    wire, server = start([(WHOLE,), (WHOLE,)])
    assert wire.send(get(server), READ, expected=200).data == b"body"
    assert server.hung_up.acquire(timeout=30)
    assert wire.send(get(server), READ, expected=200).data == b"body"
    assert server.served == 2


def test_a_connection_whose_answer_was_cut_is_not_used_again(start: Start) -> None:
    wire, server = start([(HALF,), (WHOLE,)])
    with pytest.raises(TransientError):
        wire.send(get(server), READ, expected=200)
    assert wire.send(get(server), READ, expected=200).data == b"body"


def test_an_answer_that_nobody_read_to_its_end_ends_the_connection(start: Start) -> None:
    wire, server = start([(HALF,), (WHOLE,)])
    with wire.open(get(server), READ) as body:
        assert body.read(2) == b"bo"
    assert wire.send(get(server), READ, expected=200).data == b"body"


def test_an_answer_without_end_is_not_read_to_its_end(start: Start) -> None:
    huge = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + bytes((64 << 20) + 1)
    wire, server = start([(huge,), (WHOLE,)])
    with pytest.raises(StoreError, match="larger than 64 MiB"):
        wire.send(get(server), READ, expected=200)
    assert wire.send(get(server), READ, expected=200).data == b"body"


def test_a_refusal_that_was_read_keeps_the_connection(start: Start) -> None:
    refusal = b'HTTP/1.1 404 Not Found\r\nContent-Length: 19\r\n\r\n{"message": "none"}'
    wire, server = start([(refusal, WHOLE)])
    with pytest.raises(PeragoError):
        wire.send(get(server), READ, expected=200)
    assert wire.send(get(server), READ, expected=200).data == b"body"
    assert server.served == 1


def test_another_success_than_the_expected_one_leaves_a_change_unknown(start: Start) -> None:
    wire, server = start([(WHOLE, WHOLE, WHOLE)])
    with pytest.raises(OutcomeUnknownError, match="200 instead of 204"):
        wire.send(get(server), CHANGE, expected=204)
    with pytest.raises(StoreError, match="200 instead of 204"):
        wire.send(get(server), READ, expected=204)
    assert wire.send(get(server), CHANGE).status == 200, "any success"


@pytest.mark.parametrize("speaks_s3", [True, False])
def test_the_words_of_s3_count_where_s3_is_asked(start: Start, *, speaks_s3: bool) -> None:
    said = b"<Error><Code>NoSuchKey</Code><Message>gone &amp; lost</Message></Error>"
    refusal = b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said)
    wire, server = start([(refusal,)])
    with pytest.raises(NotFoundInStoreError if speaks_s3 else TransientError):
        wire.send(replace(get(server), speaks_s3=speaks_s3), READ, expected=200)


def test_no_more_connections_are_kept_than_may_be_used_at_once(start: Start) -> None:
    wire, server = start([(WHOLE,)] * (CONCURRENCY + 1))
    with ExitStack() as stack:
        for body in [
            stack.enter_context(wire.open(get(server), READ)) for _ in range(CONCURRENCY + 1)
        ]:
            assert body.read(9) == b"body"
            assert body.read(9) == b""
    assert [len(kept) for kept in wire._idle.values()] == [CONCURRENCY]


def test_what_is_bounded_is_not_sent_after_its_time(authority: trustme.CA, tmp_path: Path) -> None:
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    server = Server([], tls)
    received: list[bytes] = []

    def shake_hands_slowly(server: Server) -> None:
        raw, _ = server.listener.accept()
        time.sleep(0.5)
        with suppress(OSError), tls.wrap_socket(raw, server_side=True) as peer:
            received.append(peer.recv(65536))

    with server.listener, running(shake_hands_slowly, server):
        wire = Wire(_connection(server, ca_file))
        reset = replace(get(server), timeout_seconds=0.2, is_bounded=True)
        with pytest.raises(TransientError) as caught:
            wire.send(reset, CHANGE, expected=204)
        wire.close()
    assert not caught.value.is_reached
    assert received in ([], [b""])


def test_a_certificate_of_a_stranger_is_refused_at_once(authority: trustme.CA) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    server = Server([], tls)
    with server.listener, running(_fail_to_shake_hands, server):
        wire = Wire(_connection(server, None))
        with pytest.raises(StoreError, match="certificate is not trusted"):
            wire.send(get(server), READ, expected=200)


def test_a_server_that_hangs_up_during_the_handshake_did_nothing() -> None:
    server = Server([], ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    with server.listener, running(_hang_up, server):
        wire = Wire(_connection(server, None))
        with pytest.raises(TransientError) as caught:
            wire.send(get(server), CHANGE, expected=200)
    assert not caught.value.is_reached


@contextmanager
def running(behave: Callable[[Server], None], server: Server) -> Iterator[None]:
    thread = threading.Thread(target=behave, args=(server,))
    thread.start()
    yield
    thread.join(30)


def _fail_to_shake_hands(server: Server) -> None:
    raw, _ = server.listener.accept()
    assert server.tls is not None
    with raw, suppress(ssl.SSLError):
        server.tls.wrap_socket(raw, server_side=True)


def _hang_up(server: Server) -> None:
    server.listener.accept()[0].close()


def test_a_server_that_is_not_there_is_named() -> None:
    server = Server([], None)
    request, connection = get(server), _connection(server, None)
    server.listener.close()

    with pytest.raises(TransientError) as caught:
        Wire(connection).send(request, READ, expected=200)

    assert connection.endpoint in caught.value.error.message

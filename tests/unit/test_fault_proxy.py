"""The proxy passes everything through untouched, but for the fault that was asked for."""

from __future__ import annotations

import hashlib
import http.client
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psutil
import pytest

from tests.fault_proxy import (
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
    Exchange,
    Fault,
    FaultProxy,
    LateRequest,
    LoseResponse,
    Match,
    Trickle,
    Truncate,
)

MIB = 1024 * 1024
DATA = bytes(range(256)) * 64


@dataclass(slots=True)
class Seen:
    """What reached the server; `done` is set when it has finished with a request."""

    requests: list[tuple[str, str]] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    bodies: list[tuple[int, str]] = field(default_factory=list)
    cut_uploads: list[int] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: Seen

    def setup(self) -> None:
        super().setup()
        self.request.settimeout(30)

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True

    def do_GET(self) -> None:
        self._note()
        kind, _, size = self.path.strip("/").partition("/")
        self.send_response(200)
        if kind == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for start in range(0, len(DATA), 1000):
                piece = DATA[start : start + 1000]
                self.wfile.write(b"%x;note=1\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\nX-Trailer: 1\r\n\r\n")
        elif kind == "until-close":
            self.close_connection = True
            self.end_headers()
            self.wfile.write(DATA)
        elif kind == "big":
            self.send_header("Content-Length", size)
            self.end_headers()
            for _ in range(int(size) // MIB):
                self.wfile.write(bytes(MIB))
        else:
            self.send_header("Content-Length", str(len(DATA)))
            self.close_connection = kind == "then-close"
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(DATA)
        self.seen.done.set()

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self._note()
        self.send_response(204)
        self.end_headers()

    def do_PUT(self) -> None:
        self._note()
        digest, size = hashlib.sha256(), 0
        for piece in self._pieces():
            digest.update(piece)
            size += len(piece)
        if self.headers["Content-Length"] not in {None, str(size)}:
            self.seen.cut_uploads.append(size)
            self.close_connection = True
        else:
            self.seen.bodies.append((size, digest.hexdigest()))
            self.send_response(201)
            self.send_header("Content-Length", "0")
            self.end_headers()
        self.seen.done.set()

    def _pieces(self) -> Iterator[bytes]:
        if self.headers["Transfer-Encoding"] == "chunked":
            while size := int(self.rfile.readline(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers["Content-Length"])
        while left and (piece := self.rfile.read(min(left, 65536))):
            left -= len(piece)
            yield piece

    def _note(self) -> None:
        self.seen.requests.append((self.command, self.path))
        self.seen.hosts.append(self.headers["Host"])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """A test's output is its own."""


class Server(ThreadingHTTPServer):
    daemon_threads = False


@contextmanager
def serving(port: int = 0) -> Iterator[tuple[Server, Seen]]:
    seen = Seen()
    handler = type("BoundHandler", (Handler,), {"seen": seen})
    with Server(("127.0.0.1", port), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server, seen
        finally:
            server.shutdown()
            thread.join()


@dataclass(frozen=True, slots=True)
class Rig:
    proxy: FaultProxy
    seen: Seen

    def fault(self, action: Action, *, times: int | None = 1) -> None:
        self.proxy.add(Fault(match=Match(None, "."), action=action, times=times))

    @contextmanager
    def client(self) -> Iterator[http.client.HTTPConnection]:
        with closing(connect(self.proxy)) as connection:
            yield connection


def connect(proxy: FaultProxy) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(proxy.endpoint.removeprefix("http://"), timeout=30)


def open_socket(proxy: FaultProxy) -> socket.socket:
    host, _, port = proxy.endpoint.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def fetch(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None
) -> tuple[int, bytes]:
    connection.request(method, path, body)
    with connection.getresponse() as response:
        return response.status, response.read()


@pytest.fixture
def rig() -> Iterator[Rig]:
    with serving() as (server, seen), FaultProxy(f"http://127.0.0.1:{server.server_port}") as proxy:
        yield Rig(proxy, seen)


# -- without faults


@pytest.mark.parametrize("path", ["/plain", "/chunked", "/until-close"])
def test_a_response_passes_unchanged_in_every_framing(rig: Rig, path: str) -> None:
    with rig.client() as client:
        assert fetch(client, "GET", path) == (200, DATA)


def test_one_connection_carries_many_requests(rig: Rig) -> None:
    with rig.client() as client:
        fetch(client, "HEAD", "/plain")
        before = client.sock
        assert fetch(client, "DELETE", "/plain") == (204, b"")
        assert fetch(client, "GET", "/chunked") == (200, DATA)
        assert fetch(client, "PUT", "/plain", b"") == (201, b"")
        assert fetch(client, "GET", "/plain?a=b") == (200, DATA)
        assert client.sock is before

    assert rig.proxy.log == (
        Exchange(method="HEAD", target="/plain", status=200),
        Exchange(method="DELETE", target="/plain", status=204),
        Exchange(method="GET", target="/chunked", status=200),
        Exchange(method="PUT", target="/plain", status=201),
        Exchange(method="GET", target="/plain?a=b", status=200),
    )
    assert rig.proxy.count("GET", "plain") == 1
    assert rig.proxy.count(None, "plain") == 4


def test_a_response_to_head_keeps_its_length(rig: Rig) -> None:
    with rig.client() as client:
        client.request("HEAD", "/plain")
        with client.getresponse() as response:
            assert response.getheader("Content-Length") == str(len(DATA))


def test_a_request_passes_unchanged_in_every_framing(rig: Rig) -> None:
    with rig.client() as client:
        fetch(client, "PUT", "/plain", DATA)
        client.request("PUT", "/plain", iter([DATA[:5], DATA[5:]]), encode_chunked=True)
        with client.getresponse() as response:
            response.read()

    assert rig.seen.bodies == [(len(DATA), hashlib.sha256(DATA).hexdigest())] * 2


def test_the_server_sees_the_host_that_the_client_signed(rig: Rig) -> None:
    with rig.client() as client:
        fetch(client, "GET", "/plain")

    assert rig.seen.hosts == [rig.proxy.endpoint.removeprefix("http://")]


def test_a_body_waits_for_the_servers_consent_when_the_client_does(rig: Rig) -> None:
    with open_socket(rig.proxy) as client, client.makefile("rb") as answers:
        client.sendall(
            b"PUT /plain HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        )
        assert answers.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert answers.readline() == b"\r\n"
        client.sendall(b"ab")
        assert answers.readline().startswith(b"HTTP/1.1 201 ")

    assert rig.seen.bodies == [(2, hashlib.sha256(b"ab").hexdigest())]


def test_big_bodies_do_not_pile_up_in_memory(rig: Rig) -> None:
    size = 96 * MIB
    tracemalloc.start()
    try:
        with rig.client() as client:
            client.request("PUT", "/plain", (bytes(MIB) for _ in range(96)), encode_chunked=True)
            with client.getresponse() as response:
                response.read()
            client.request("GET", f"/big/{size}")
            with client.getresponse() as response:
                received = sum(len(piece) for piece in iter(lambda: response.read(MIB), b""))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert received == size
    assert [length for length, _ in rig.seen.bodies] == [size]
    assert peak < 16 * MIB


# -- faults


def test_an_answer_takes_the_servers_place(rig: Rig) -> None:
    answer = Answer(status=429, body=b"slow down", headers=(("Retry-After", "1"),))
    rig.fault(answer)

    with rig.client() as client:
        client.request("PUT", "/plain", DATA)
        with client.getresponse() as response:
            assert response.status == 429
            assert response.getheader("Retry-After") == "1"
            assert response.read() == b"slow down"
        assert rig.seen.requests == []
        assert fetch(client, "GET", "/plain") == (200, DATA)

    assert rig.proxy.log[0] == Exchange(method="PUT", target="/plain", status=429, fault=answer)


def test_an_answer_comes_before_the_body_of_a_client_that_waits(rig: Rig) -> None:
    rig.fault(Answer(status=403))

    with open_socket(rig.proxy) as client, client.makefile("rb") as answers:
        client.sendall(
            b"PUT /plain HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        )
        assert answers.read().startswith(b"HTTP/1.1 403 ")


def test_an_answer_to_head_has_no_body(rig: Rig) -> None:
    rig.fault(Answer(status=500, body=b"broken"))

    with rig.client() as client:
        assert fetch(client, "HEAD", "/plain") == (500, b"")
        assert fetch(client, "GET", "/plain") == (200, DATA)


def test_a_lost_response_leaves_the_work_done(rig: Rig) -> None:
    rig.fault(LoseResponse())

    with rig.client() as client, pytest.raises(http.client.RemoteDisconnected):
        fetch(client, "PUT", "/plain", DATA)

    assert [size for size, _ in rig.seen.bodies] == [len(DATA)]
    assert rig.proxy.log == (
        Exchange(method="PUT", target="/plain", status=201, fault=LoseResponse()),
    )


def test_a_request_that_is_cut_before_it_passes_never_arrives(rig: Rig) -> None:
    rig.fault(CutBefore())

    with rig.client() as client, pytest.raises(http.client.RemoteDisconnected):
        fetch(client, "GET", "/plain")

    assert rig.seen.requests == []
    assert rig.proxy.log == (Exchange(method="GET", target="/plain", fault=CutBefore()),)


@pytest.mark.parametrize("path", ["/plain", "/chunked"])
@pytest.mark.parametrize("after", [0, 1, 1500])
def test_a_response_is_cut_at_the_byte(rig: Rig, path: str, after: int) -> None:
    rig.fault(CutResponse(after=after))

    with open_socket(rig.proxy) as client, client.makefile("rb") as answers:
        client.sendall(b"GET %b HTTP/1.1\r\nHost: h\r\n\r\n" % path.encode())
        head, _, body = answers.read().partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 200 ")
    if path == "/plain":
        assert body == DATA[:after]
    else:
        assert not body.endswith(b"0\r\n\r\n")
        assert sum(len(line) for line in _unchunk(body)) == after


def _unchunk(raw: bytes) -> Iterator[bytes]:
    while raw:
        size, _, rest = raw.partition(b"\r\n")
        yield rest[: int(size, 16)]
        raw = rest[int(size, 16) + 2 :]


def test_a_request_is_cut_at_the_byte(rig: Rig) -> None:
    rig.fault(CutRequest(after=1000))

    with rig.client() as client, pytest.raises(ConnectionError):
        fetch(client, "PUT", "/plain", DATA)

    assert rig.seen.done.wait(30)
    assert rig.seen.cut_uploads == [1000]
    assert rig.seen.bodies == []


def test_a_delayed_request_arrives_later(rig: Rig) -> None:
    rig.fault(DelayRequest(seconds=60))

    with rig.client() as client:
        client.timeout = 0.2
        with pytest.raises(TimeoutError):
            fetch(client, "GET", "/plain")

    assert rig.seen.requests == []
    assert rig.proxy.log == (
        Exchange(method="GET", target="/plain", fault=DelayRequest(seconds=60)),
    )


def test_a_delayed_request_passes_in_the_end(rig: Rig) -> None:
    rig.fault(DelayRequest(seconds=0.01))

    with rig.client() as client:
        assert fetch(client, "GET", "/plain") == (200, DATA)


def test_a_late_request_reaches_the_server_after_the_client_was_cut_off(rig: Rig) -> None:
    rig.fault(LateRequest(seconds=1))

    with rig.client() as client, pytest.raises(ConnectionError):
        fetch(client, "PUT", "/plain", DATA)

    assert rig.seen.requests == []
    assert rig.seen.done.wait(30)
    assert [size for size, _ in rig.seen.bodies] == [len(DATA)]


def test_a_delayed_response_comes_after_the_work(rig: Rig) -> None:
    rig.fault(DelayResponse(seconds=60))

    with rig.client() as client:
        client.timeout = 0.2
        with pytest.raises(TimeoutError):
            fetch(client, "PUT", "/plain", DATA)

    assert rig.seen.done.wait(30)


def test_a_trickle_stalls_a_client_that_bounds_the_whole_call(rig: Rig) -> None:
    rig.fault(Trickle(bytes_per_second=1))

    with rig.client() as client:
        client.request("GET", "/plain")
        with client.getresponse() as response:
            assert client.sock is not None
            client.sock.settimeout(0.2)
            with pytest.raises(TimeoutError):
                response.read()


def test_a_trickle_is_complete_in_the_end(rig: Rig) -> None:
    rig.fault(Trickle(bytes_per_second=1_000_000))

    with rig.client() as client:
        assert fetch(client, "GET", "/chunked") == (200, DATA)


@pytest.mark.parametrize("path", ["/plain", "/chunked"])
@pytest.mark.parametrize("offset", [0, 1500, len(DATA) - 1])
def test_one_byte_is_corrupted_and_the_length_kept(rig: Rig, path: str, offset: int) -> None:
    rig.fault(CorruptByte(offset=offset))

    with rig.client() as client:
        status, body = fetch(client, "GET", path)

    assert status == 200
    assert len(body) == len(DATA)
    assert [at for at in range(len(DATA)) if body[at] != DATA[at]] == [offset]


@pytest.mark.parametrize("path", ["/plain", "/chunked"])
@pytest.mark.parametrize("to", [0, 1500, len(DATA) + 1])
def test_a_truncated_body_looks_complete(rig: Rig, path: str, to: int) -> None:
    rig.fault(Truncate(to=to))

    with rig.client() as client:
        assert fetch(client, "GET", path) == (200, DATA[:to])
        assert fetch(client, "GET", path) == (200, DATA)


def test_a_callback_runs_before_the_server_hears_of_it(rig: Rig) -> None:
    at_callback: list[int] = []
    rig.fault(CallBefore(callback=lambda: at_callback.append(len(rig.seen.requests))))

    with rig.client() as client:
        assert fetch(client, "GET", "/plain") == (200, DATA)

    assert at_callback == [0]


def test_a_callback_runs_when_the_server_is_done_and_the_client_knows_nothing(rig: Rig) -> None:
    at_callback: list[bool] = []
    rig.fault(CallAfter(callback=lambda: at_callback.append(rig.seen.done.wait(30))))

    with rig.client() as client:
        assert fetch(client, "GET", "/chunked") == (200, DATA)

    assert at_callback == [True]


def test_a_callback_runs_in_the_middle_of_an_upload(rig: Rig) -> None:
    at_callback: list[bool] = []
    rig.fault(
        CallMidRequest(callback=lambda: at_callback.append(rig.seen.done.is_set()), after=1000)
    )

    with rig.client() as client:
        assert fetch(client, "PUT", "/plain", DATA) == (201, b"")

    assert at_callback == [False]
    assert rig.seen.bodies == [(len(DATA), hashlib.sha256(DATA).hexdigest())]


@pytest.mark.parametrize("after", [0, 1500, len(DATA) + 1])
def test_a_callback_runs_in_the_middle_of_a_download(rig: Rig, after: int) -> None:
    called = threading.Event()
    rig.fault(CallMidResponse(callback=called.set, after=after))

    with rig.client() as client:
        assert fetch(client, "GET", "/plain") == (200, DATA)

    assert called.wait(30)


def test_what_a_callback_raises_is_not_lost() -> None:
    def fail() -> None:
        raise ProcessLookupError("no such process")

    with serving() as (server, seen):
        proxy = FaultProxy(f"http://127.0.0.1:{server.server_port}")
        proxy.start()
        Rig(proxy, seen).fault(CallBefore(callback=fail))
        with closing(connect(proxy)) as client, pytest.raises(http.client.RemoteDisconnected):
            fetch(client, "GET", "/plain")
        with pytest.raises(ExceptionGroup) as caught:
            proxy.close()

    assert "no such process" in str(caught.value.exceptions[0])


# -- rules


def test_a_rule_fits_by_method_and_target_and_occurrence(rig: Rig) -> None:
    rig.proxy.add(
        Fault(match=Match("GET", r"/plain\?x=", nth=2), action=Answer(status=500), times=2)
    )

    with rig.client() as client:
        fetch(client, "PUT", "/plain?x=1", b"")
        fetch(client, "GET", "/plain")
        statuses = [fetch(client, "GET", f"/plain?x={number}")[0] for number in range(5)]

    assert statuses == [200, 500, 500, 200, 200]


def test_the_rule_that_was_added_first_wins_while_it_lasts(rig: Rig) -> None:
    rig.fault(Answer(status=500))
    rig.fault(Answer(status=503), times=None)

    with rig.client() as client:
        statuses = [fetch(client, "GET", "/plain")[0] for _ in range(3)]
        rig.proxy.clear()
        statuses.append(fetch(client, "GET", "/plain")[0])

    assert statuses == [500, 503, 503, 200]


# -- connections


def test_it_refuses_connections_until_it_resumes(rig: Rig) -> None:
    with rig.client() as client:
        fetch(client, "GET", "/plain")
        rig.proxy.refuse()
        with pytest.raises(ConnectionError):
            fetch(client, "GET", "/plain")
    with rig.client() as client, pytest.raises(ConnectionRefusedError):
        fetch(client, "GET", "/plain")

    rig.proxy.resume()

    with rig.client() as client:
        assert fetch(client, "GET", "/plain") == (200, DATA)


def test_a_server_that_is_away_cuts_its_clients_off() -> None:
    with serving() as (server, _):
        port = server.server_port
    with FaultProxy(f"http://127.0.0.1:{port}") as proxy:
        with closing(connect(proxy)) as client, pytest.raises(http.client.RemoteDisconnected):
            fetch(client, "GET", "/plain")
        assert proxy.log == (Exchange(method="GET", target="/plain"),)

        with serving(port), closing(connect(proxy)) as client:
            assert fetch(client, "GET", "/plain") == (200, DATA)


def test_an_idle_connection_ends_with_the_servers(rig: Rig) -> None:
    with open_socket(rig.proxy) as client, client.makefile("rb") as answers:
        client.sendall(b"GET /then-close HTTP/1.1\r\nHost: h\r\n\r\n")
        assert answers.read().endswith(DATA)


def test_nothing_is_left_of_it_when_it_closes_in_the_middle_of_everything() -> None:
    process = psutil.Process()
    with serving() as (server, seen):
        threads, files = set(threading.enumerate()), process.num_fds()
        with FaultProxy(f"http://127.0.0.1:{server.server_port}") as proxy:
            rig = Rig(proxy, seen)
            arrived = threading.Semaphore(0)
            proxy.add(Fault(match=Match(None, "one"), action=DelayRequest(seconds=60)))
            proxy.add(Fault(match=Match(None, "two"), action=DelayResponse(seconds=60)))
            proxy.add(
                Fault(match=Match(None, "three"), action=CallBefore(callback=arrived.release))
            )
            clients = [connect(proxy) for _ in range(4)]
            for client, path in zip(
                clients, ["/one", "/two", "/big/104857600", "/three"], strict=True
            ):
                client.request("GET", path)
            assert arrived.acquire(timeout=30)
            assert seen.done.wait(30)
        assert len(rig.proxy.log) == 4
        for client in clients:
            client.close()
        _wait_for_handlers(threads)

    assert set(threading.enumerate()) <= threads
    assert process.num_fds() < files


def _wait_for_handlers(before: set[threading.Thread]) -> None:
    """The server's own threads end when they see that their connections did."""
    deadline = time.monotonic() + 30
    while any(
        "process_request_thread" in thread.name for thread in set(threading.enumerate()) - before
    ):
        assert time.monotonic() < deadline, "a handler never ended"
        time.sleep(0.01)  # no join: one that is about to be started cannot be joined

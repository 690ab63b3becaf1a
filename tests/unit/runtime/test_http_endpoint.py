"""Probes get their answers whatever other clients do."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from perago.domain.errors import EnvironmentUnfitError
from perago.runtime.health import HealthBoard, HealthLimits
from perago.runtime.http_endpoint import HttpEndpoint, serve_http
from perago.testing import FakeClock
from tests.unit.runtime.test_health import WELL

HOST = "127.0.0.1"


class Scene:
    def __init__(self, endpoint: HttpEndpoint, board: HealthBoard, clock: FakeClock) -> None:
        self.port = endpoint.server_port
        self.board = board
        self.clock = clock

    def ask(self, path: str, method: str = "GET") -> tuple[int, str]:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=20)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def ask_until_answered(self) -> int:
        """The status, once the port has a place for us again; a test's time-out is the bound."""
        while True:
            try:
                return self.ask("/livez")[0]
            except (ConnectionError, http.client.HTTPException):
                time.sleep(0.01)


class Page:
    content_type = "text/plain; version=0.0.4"

    def __init__(self) -> None:
        self.is_broken = False

    def render(self) -> bytes:
        if self.is_broken:
            raise RuntimeError("a bug")
        return b"perago_polls_total 1.0\n"


@pytest.fixture
def page() -> Page:
    return Page()


@pytest.fixture
def scene(page: Page) -> Iterator[Scene]:
    with serving(page) as made:
        yield made


@contextmanager
def serving(page: Page, *, client_seconds: float = 5.0) -> Iterator[Scene]:
    clock = FakeClock()
    board = HealthBoard(clock, HealthLimits(turn=30))
    board.state = replace(WELL, turned_at=0, poller_turned_at=0, answered_at=0)
    with serve_http(HOST, 0, board, page, client_seconds=client_seconds) as endpoint:
        yield Scene(endpoint, board, clock)


def test_a_worker_that_is_well_says_so(scene: Scene) -> None:
    for path in ("/livez", "/readyz", "/livez?verbose=1"):
        status, body = scene.ask(path)
        assert (status, json.loads(body)["reasons"]) == (200, [])
    assert scene.ask("/livez", "HEAD") == (200, "")


def test_a_wedged_loop_fails_the_probe(scene: Scene) -> None:
    scene.clock.advance(31)

    status, body = scene.ask("/livez")

    assert status == 503
    assert json.loads(body)["reasons"] == ["the supervisor's loop has not turned for 31 s"]


def test_a_drain_is_alive_and_not_ready(scene: Scene) -> None:
    assert scene.board.state is not None
    scene.board.state = replace(scene.board.state, is_draining=True)

    assert scene.ask("/livez")[0] == 200
    assert scene.ask("/readyz")[0] == 503


def test_metrics_come_from_their_page(scene: Scene) -> None:
    assert scene.ask("/metrics") == (200, "perago_polls_total 1.0\n")


def test_a_bug_in_the_metrics_leaves_the_probes_alone(
    scene: Scene, page: Page, caplog: pytest.LogCaptureFixture
) -> None:
    page.is_broken = True

    assert scene.ask("/metrics")[0] == 500
    assert "a bug" in caplog.text
    assert scene.ask("/livez")[0] == 200


def test_without_telemetry_the_metrics_say_what_to_install() -> None:
    board = HealthBoard(FakeClock())
    with serve_http(HOST, 0, board) as endpoint:
        status, body = Scene(endpoint, board, FakeClock()).ask("/metrics")

    assert status == 404
    assert "perago-runtime[telemetry]" in body


def test_an_unknown_path_and_method_are_refused(scene: Scene) -> None:
    assert scene.ask("/secrets")[0] == 404
    assert scene.ask("/livez", "POST")[0] == 501


@pytest.mark.parametrize(
    "sent",
    [b"\x16\x03\x01\x02\x00", b"GET " + b"/" * 70_000, b"GET /livez HTTP/9.9\r\n\r\n", b""],
    ids=["tls", "long", "version", "nothing"],
)
def test_bad_requests_harm_nobody(scene: Scene, sent: bytes) -> None:
    with socket.create_connection((HOST, scene.port)) as client:
        client.sendall(sent)

    assert scene.ask("/livez")[0] == 200


def test_the_seventeenth_connection_is_closed_at_once(scene: Scene) -> None:
    with ExitStack() as stack:
        places = [
            stack.enter_context(socket.create_connection((HOST, scene.port))) for _ in range(16)
        ]
        crowded = stack.enter_context(socket.create_connection((HOST, scene.port)))
        crowded.settimeout(20)
        assert crowded.recv(1) == b""  # closed: there are 16 already
        for place in places:
            place.setblocking(False)
            with pytest.raises(BlockingIOError):  # open, and nothing to read
                place.recv(1)

    assert scene.ask_until_answered() == 200


def test_a_client_that_sends_nothing_is_hung_up_on(page: Page) -> None:
    with (
        serving(page, client_seconds=0.05) as scene,
        socket.create_connection((HOST, scene.port), timeout=20) as client,
    ):
        assert client.recv(1) == b""


def test_a_client_that_drips_is_hung_up_on(page: Page) -> None:
    with (
        serving(page, client_seconds=0.1) as scene,
        socket.create_connection((HOST, scene.port), timeout=0.02) as client,
    ):
        client.sendall(b"GET /livez HTTP/1.1\r\nX-Drip: ")
        assert drip(client) == b""  # no answer: the request never ended


def drip(client: socket.socket) -> bytes:
    """Send a byte now and then until the server has enough; a test's time-out is the bound."""
    while True:
        try:
            client.sendall(b".")
            return client.recv(1)
        except TimeoutError:
            continue
        except ConnectionError:
            return b""


def test_an_answer_says_what_it_is_and_how_long(scene: Scene) -> None:
    for path, kind in (("/livez", "application/json"), ("/metrics", Page.content_type)):
        connection = http.client.HTTPConnection(HOST, scene.port, timeout=20)
        connection.request("HEAD", path)
        head = connection.getresponse()
        connection.close()

        assert head.headers["Content-Type"] == kind
        assert int(head.headers["Content-Length"]) == len(scene.ask(path)[1])
        assert head.headers["Server"].strip() == "perago"  # and not which Python it is


def test_a_health_answer_is_one_line(scene: Scene) -> None:
    assert scene.ask("/livez")[1].endswith("}\n")


def test_an_endpoint_that_was_closed_leaves_nothing_behind(page: Page) -> None:
    with serve_http(HOST, 0, HealthBoard(FakeClock()), page) as endpoint:
        pass

    assert endpoint.socket.fileno() == -1
    assert not [thread for thread in threading.enumerate() if thread.name == "perago-http"]


def test_an_address_with_colons_is_not_looked_up_as_a_name() -> None:
    with pytest.raises(EnvironmentUnfitError) as caught:
        HttpEndpoint("2001:db8::1", 0, HealthBoard(FakeClock()))

    assert not isinstance(caught.value.__cause__, socket.gaierror)


def test_a_taken_port_is_one_clear_error(scene: Scene) -> None:
    with pytest.raises(EnvironmentUnfitError) as caught, serve_http(HOST, scene.port, scene.board):
        pass

    assert f"cannot listen on {HOST}:{scene.port}" in caught.value.message
    assert "PERAGO_HTTP_PORT" in (caught.value.hint or "")


@pytest.mark.parametrize(("host", "port"), [("203.0.113.7", 0), (HOST, 70_000)])
def test_an_address_that_is_not_ours_is_one_clear_error(host: str, port: int) -> None:
    with pytest.raises(EnvironmentUnfitError), serve_http(host, port, HealthBoard(FakeClock())):
        pass

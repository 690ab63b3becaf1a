"""The worker's own HTTP port: `/livez`, `/readyz` and `/metrics`, for probes and scrapers.

Invariant: nothing that a client sends or leaves undone harms the worker. Answers are made from
snapshots, connections are few and short, and an error in an answer stays in its thread.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Protocol

from perago.domain.errors import EnvironmentUnfitError
from perago.domain.redaction import NOTHING_KNOWN, Redactor
from perago.runtime.health import HealthBoard, Verdict

_log = logging.getLogger(__name__)

_MOST_CONNECTIONS = 16
_CLIENT_SECONDS = 5.0
"""How long a client may take to send a request, or to take its answer."""

_CLOSE_SECONDS = 0.1
"""How long the end of the endpoint may take to be noticed."""


class MetricsPage(Protocol):
    """What answers `/metrics`."""

    content_type: str

    def render(self) -> bytes:
        """The metrics as they are now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: HTTPStatus
    body: bytes
    content_type: str = "application/json"


class HttpEndpoint(ThreadingHTTPServer):
    """Serves the three paths until closed."""

    daemon_threads = True
    request_queue_size = _MOST_CONNECTIONS
    """With a shorter queue, one of several clients that come at once waits for a second."""

    def __init__(
        self,
        host: str,
        port: int,
        board: HealthBoard,
        metrics: MetricsPage | None = None,
        *,
        client_seconds: float = _CLIENT_SECONDS,
        redactor: Redactor = NOTHING_KNOWN,
    ) -> None:
        self.client_seconds = client_seconds
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._paths: dict[str, Callable[[], _Answer]] = {
            "/livez": lambda: _health_answer(board, board.liveness(), redactor),
            "/readyz": lambda: _health_answer(board, board.readiness(), redactor),
            "/metrics": lambda: _metrics_answer(metrics, redactor),
        }
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise EnvironmentUnfitError(
                f"cannot listen on {host}:{port}: {reason}",
                hint="choose a free port with PERAGO_HTTP_PORT, or an address of this machine "
                "with PERAGO_HTTP_HOST",
            ) from error

    def server_bind(self) -> None:
        """Bind without asking the name service who we are, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "perago", int(self.server_address[1])

    def answer(self, path: str) -> _Answer:
        """The answer to one path."""
        make = self._paths.get(path)
        if make is None:
            known = ", ".join(self._paths)
            return _json_answer(HTTPStatus.NOT_FOUND, {"error": f"there are {known}"})
        return make()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread, unless there are too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self._free.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve, and free the place whatever happened."""
        # The time-out of a socket starts anew with each byte; a client that drips must end too.
        end = threading.Timer(2 * self.client_seconds, _hang_up, (request,))
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """A client that went away, or a bug: neither is the worker's end."""
        _log.debug("a request failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server_version = "perago"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        assert isinstance(self.server, HttpEndpoint)
        self.connection.settimeout(self.server.client_seconds)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Probes come every few seconds: not worth a line each."""
        _log.debug(format, *args)

    def _answer(self, *, with_body: bool) -> None:
        assert isinstance(self.server, HttpEndpoint)
        try:
            answer = self.server.answer(self.path.partition("?")[0])
        # A bug in a metric must not look like the silence of a dead worker.
        except Exception:  # noqa: BLE001
            _log.exception("cannot answer %s", self.path[:100])
            text = {"error": "internal error, see the worker's log"}
            answer = _json_answer(HTTPStatus.INTERNAL_SERVER_ERROR, text)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)


@contextmanager
def serve_http(
    host: str,
    port: int,
    board: HealthBoard,
    metrics: MetricsPage | None = None,
    *,
    client_seconds: float = _CLIENT_SECONDS,
    redactor: Redactor = NOTHING_KNOWN,
) -> Iterator[HttpEndpoint]:
    """Listen and answer, in a thread of its own, until the end of the block."""
    endpoint = HttpEndpoint(
        host, port, board, metrics, client_seconds=client_seconds, redactor=redactor
    )
    thread = threading.Thread(
        target=endpoint.serve_forever, args=(_CLOSE_SECONDS,), name="perago-http", daemon=True
    )
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.shutdown()
        endpoint.server_close()
        thread.join()


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _health_answer(board: HealthBoard, verdict: Verdict, redactor: Redactor) -> _Answer:
    status = HTTPStatus.OK if verdict.is_well else HTTPStatus.SERVICE_UNAVAILABLE
    # It may quote what a server said.
    return _json_answer(status, redactor.apply_to_json(board.describe(verdict)))


def _metrics_answer(metrics: MetricsPage | None, redactor: Redactor) -> _Answer:
    if metrics is None:
        text = {"error": "no metrics: install perago-runtime[telemetry]"}
        return _json_answer(HTTPStatus.NOT_FOUND, text)
    # Names of tasks and phases: nothing else should be in its labels.
    body = redactor.apply(metrics.render().decode()).encode()
    return _Answer(status=HTTPStatus.OK, body=body, content_type=metrics.content_type)


def _json_answer(status: HTTPStatus, content: object) -> _Answer:
    return _Answer(status=status, body=json.dumps(content).encode() + b"\n")

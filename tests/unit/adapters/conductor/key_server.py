"""A small HTTP server that wants tokens, as the open-source Conductor does not.

It stands for no Conductor: it shows what our own client sends, and when.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY, SECRET = "the-key", "the-secret"


@dataclass
class KeyServer:
    """What it saw, and which token it takes now."""

    url: str = ""
    good: str | None = None
    prefix: str = "token-"
    refusal: tuple[int, str] = (401, "EXPIRED_TOKEN")
    refuses_all: bool = False
    logins: int = 0
    calls: list[tuple[str, str | None]] = field(default_factory=list)
    connections: set[int] = field(default_factory=set)
    """The ports that they came from."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def expire(self) -> None:
        """Take no token that was given so far."""
        self.good = None


@contextmanager
def key_server(
    *, wants_token: bool = True, tls: ssl.SSLContext | None = None
) -> Iterator[KeyServer]:
    """Serve until the block ends; with `tls` over https."""
    state = KeyServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            token = self.headers.get("X-Authorization")
            state.calls.append((self.path, token))
            state.connections.add(self.client_address[1])
            if state.refuses_all or (wants_token and (token is None or token != state.good)):
                status, word = state.refusal
                self._answer(status, {"error": word, "message": word})
            elif self.path.startswith("/api/workflow/search"):
                self._answer(200, {"totalHits": 0, "results": []})
            else:
                self._answer(200, [])

        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/api/token" or sent != {"keyId": KEY, "keySecret": SECRET}:
                self._answer(401, {"message": f"bad credentials {sent}"})
                return
            with state.lock:
                state.logins += 1
                state.good = f"{state.prefix}{state.logins}"
            self._answer(200, {"token": state.good})

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

        def _answer(self, status: int, content: object) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        state.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()

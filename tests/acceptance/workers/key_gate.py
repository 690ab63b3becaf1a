"""A gate before a Conductor that wants a token, as the open-source Conductor itself does not."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_HOP_BY_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyGate:
    """Lets those through who exchanged this key and secret for the token."""

    url: str
    key: str
    secret: str
    token: str
    logins: list[str] = field(default_factory=list)


@contextmanager
def key_gate(server: str, *, key: str, secret: str, token: str) -> Iterator[KeyGate]:
    """Stand before that server until the end of the block."""
    target, credentials = urlsplit(server), {"keyId": key, "keySecret": secret}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path == "/api/token" and json.loads(body) == credentials:
                gate.logins.append(key)
                self._answer(200, [], json.dumps({"token": token}).encode())
            elif self.headers.get("X-Authorization") != token:
                self._answer(401, [], b'{"error": "INVALID_TOKEN"}')
            else:
                self._forward(body)

        do_GET = do_POST = do_PUT = do_DELETE = _pass  # noqa: N815 - as the base class has them

        def _forward(self, body: bytes) -> None:
            connection = http.client.HTTPConnection(target.netloc, timeout=60)
            kept = {n: v for n, v in self.headers.items() if n.lower() not in _HOP_BY_HOP}
            try:
                connection.request(self.command, self.path, body or None, kept)
                answer = connection.getresponse()
                self._answer(answer.status, answer.getheaders(), answer.read())
            finally:
                connection.close()

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in _HOP_BY_HOP | {"server", "date"}:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as gatekeeper:
        url = f"http://127.0.0.1:{gatekeeper.server_port}"
        gate = KeyGate(url=url, key=key, secret=secret, token=token)
        thread = threading.Thread(target=gatekeeper.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield gate
        finally:
            gatekeeper.shutdown()
            thread.join()

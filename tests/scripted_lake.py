"""A stand-in for a lakeFS server that answers what a test says, in the test's own process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from perago.adapters.lakefs import LakeFSConnection, LakeFSWorkspaceStore
from perago.adapters.object_cache import ObjectCache


@dataclass(frozen=True, slots=True)
class Answer:
    """What it answers; `announced` is the length that its header says, where that is untrue."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    announced: int | None = None


Reply = Callable[[str, str], Answer]
"""The answer to a method and a path with its query."""


@dataclass(slots=True)
class ScriptedLake:
    """What it answers may change at any time; `asked` is what was asked so far."""

    store: LakeFSWorkspaceStore
    reply: Reply
    asked: list[str] = field(default_factory=list)


@contextmanager
def scripted_lake(reply: Reply, *, cache: ObjectCache | None = None) -> Iterator[ScriptedLake]:
    """A server that runs meanwhile, and a store that asks it and repeats nothing."""
    lake: ScriptedLake

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # headers and body in one packet

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = unquote(self.path.removeprefix("/api/v1"))
            lake.asked.append(f"{self.command} {path}")
            answer = lake.reply(self.command, path)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            length = len(answer.body) if answer.announced is None else answer.announced
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(answer.body)
            self.close_connection = length != len(answer.body)

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - the names are given

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    connection = LakeFSConnection(
        endpoint=f"http://127.0.0.1:{server.server_address[1]}",
        access_key_id="key",
        secret_access_key="secret",
        timeout_seconds=30,
        retry_seconds=0,
        concurrency=2,
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        with LakeFSWorkspaceStore(connection, cache=cache) as store:
            lake = ScriptedLake(store=store, reply=reply)
            yield lake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

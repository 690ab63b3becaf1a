"""A lakeFS server that enforces policies.

lakeFS Community evaluates policies itself, but asks another service for them. The `Authority` is
as much of that service as the server asks for: keys, users, and the policies of each.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from perago.adapters.lakefs import LakeFSConnection
from perago.adapters.servers import Binary
from perago.adapters.servers.processes import (
    LOOPBACK,
    choose_free_port,
    end_process,
    read_tail,
    spawn_server,
)
from tests.architecture.lakefs_policy import Statement

ADMIN = "admin"
WORKER = "worker"
SECRET = "a-secret-of-this-test"
EVERYTHING: list[Statement] = [
    {"effect": "allow", "action": ["fs:*", "branches:*"], "resource": "*"}
]

_START_SECONDS = 60


class Authority:
    """Knows two users, whose keys are their names; a context manager."""

    def __init__(self) -> None:
        self.policies: dict[str, list[Statement]] = {ADMIN: EVERYTHING, WORKER: []}
        authority = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, document = authority.answer(urlsplit(self.path).path)
                body = b"" if document is None else json.dumps(document).encode()
                self.send_response(status)
                if body:
                    self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self._server.server_port}/api/v1"

    def answer(self, path: str) -> tuple[int, object]:
        match path.removeprefix("/api/v1/").split("/"):
            case ["healthcheck"]:
                return 204, None
            case ["config", "version"]:
                return 200, {"version": "1"}
            case ["auth", "credentials", key] if key in self.policies:
                credentials = {"access_key_id": key, "secret_access_key": SECRET}
                return 200, credentials | {"creation_date": 0, "user_id": 0, "user_name": key}
            case ["auth", "users", user] if user in self.policies:
                return 200, {"username": user, "creation_date": 0, "encryptedPassword": ""}
            case ["auth", "users", user, "policies"] if user in self.policies:
                return 200, self._list_policies(user)
            case _:
                return 404, {"message": "not found"}

    def _list_policies(self, user: str) -> object:
        statements = self.policies[user]
        policy = {"name": user, "creation_date": 0, "statement": statements}
        pages = {"has_more": False, "next_offset": "", "results": 1, "max_per_page": 1000}
        return {"pagination": pages, "results": [policy] if statements else []}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class GovernedLakeFS:
    """The server, and who decides what its users may do."""

    def __init__(self, endpoint: str, authority: Authority) -> None:
        self.endpoint = endpoint
        self.authority = authority

    def connection_of(self, user: str) -> LakeFSConnection:
        return LakeFSConnection(
            endpoint=self.endpoint, access_key_id=user, secret_access_key=SECRET, concurrency=4
        )

    def allow(self, statements: list[Statement]) -> None:
        """From the next call on the worker may do this and nothing else."""
        self.authority.policies[WORKER] = statements


@contextmanager
def governed_lakefs(directory: Path, binary: Binary) -> Iterator[GovernedLakeFS]:
    """Start a server without a cache of permissions; it ends with the block."""
    directory.mkdir()
    port = choose_free_port()
    configuration, log = directory / "lakefs.yaml", directory / "lakefs.log"
    configuration.touch()
    with Authority() as authority:
        child = spawn_server(
            [str(binary.path), "--config", str(configuration), "run"],
            environment={
                "HOME": str(directory),
                "LAKEFS_LISTEN_ADDRESS": f"{LOOPBACK}:{port}",
                "LAKEFS_DATABASE_TYPE": "local",
                "LAKEFS_DATABASE_LOCAL_PATH": str(directory / "database"),
                "LAKEFS_BLOCKSTORE_TYPE": "local",
                "LAKEFS_BLOCKSTORE_LOCAL_PATH": str(directory / "blocks"),
                "LAKEFS_COMMITTED_LOCAL_CACHE_DIR": str(directory / "cache"),
                "LAKEFS_AUTH_ENCRYPT_SECRET_KEY": "encrypted-for-this-test",
                "LAKEFS_AUTH_API_ENDPOINT": authority.endpoint,
                "LAKEFS_AUTH_API_TOKEN": "token",
                "LAKEFS_AUTH_UI_CONFIG_RBAC": "internal",
                "LAKEFS_AUTH_CACHE_ENABLED": "false",
                "LAKEFS_STATS_ENABLED": "false",
                "LAKEFS_SECURITY_CHECK_LATEST_VERSION": "false",
            },
            log=log,
            tied=True,
        )
        try:
            endpoint = f"http://{LOOPBACK}:{port}"
            _wait_until_healthy(endpoint, log)
            yield GovernedLakeFS(endpoint, authority)
        finally:
            end_process(child.identity, grace_seconds=5)
            child.reap()


def _wait_until_healthy(endpoint: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with urlopen(f"{endpoint}/_health", timeout=5) as response:
                assert response.status == 200
                return
        except URLError:
            assert time.monotonic() < deadline, read_tail(log)
            time.sleep(0.1)

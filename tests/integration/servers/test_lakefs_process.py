"""The real lakeFS under `LakeFSServer`: starts, crashes and restarts keep data and credentials."""

from __future__ import annotations

import json
import os
import signal
import stat
import threading
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from perago.adapters.servers import (
    Binary,
    LakeFSServer,
    LakeFSState,
    ServerStatus,
    ThrowawayLakeFS,
    throwaway_lakefs,
)
from perago.domain.errors import EnvironmentUnfitError

pytestmark = pytest.mark.lakefs


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LakeFSServer]:
    server = LakeFSServer(tmp_path / "dev" / "lakefs", tied=True)
    yield server
    server.kill()


def call(
    access: LakeFSState | ThrowawayLakeFS, method: str, path: str, body: object = None
) -> tuple[int, Any]:
    """One call to the server's API."""
    pair = f"{access.access_key_id}:{access.secret_access_key}".encode()
    headers = {
        "Authorization": f"Basic {b64encode(pair).decode()}",
        "Content-Type": "application/json",
    }
    connection = HTTPConnection(urlsplit(access.endpoint).netloc, timeout=60)
    try:
        connection.request(method, f"/api/v1{path}", json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def create(access: LakeFSState | ThrowawayLakeFS, name: str) -> None:
    body = {"name": name, "storage_namespace": f"local://{name}"}
    status, answer = call(access, "POST", "/repositories", body)
    assert status == 201, answer


def repositories(access: LakeFSState | ThrowawayLakeFS) -> list[str]:
    status, answer = call(access, "GET", "/repositories")
    assert status == 200, answer
    return [repository["id"] for repository in answer["results"]]


def test_data_outlive_a_stop(server: LakeFSServer, lakefs_binary: Binary) -> None:
    create(server.start(lakefs_binary).state, "lab")
    assert server.report().is_up
    assert server.stop() is True
    assert server.report().status is ServerStatus.STOPPED

    assert repositories(server.start(lakefs_binary).state) == ["lab"]


def test_data_outlive_kill_9(server: LakeFSServer, lakefs_binary: Binary) -> None:
    before = server.start(lakefs_binary).state
    create(before, "lab")
    assert before.process is not None
    os.kill(before.process.pid, signal.SIGKILL)

    after = server.start(lakefs_binary)

    assert after.fresh
    assert after.state.endpoint == before.endpoint
    assert repositories(after.state) == ["lab"]


def test_two_starts_at_once_start_one_server(tmp_path: Path, lakefs_binary: Binary) -> None:
    servers = [LakeFSServer(tmp_path / "lakefs", tied=True) for _ in range(2)]
    barrier = threading.Barrier(2)

    def start(server: LakeFSServer) -> bool:
        barrier.wait()
        return server.start(lakefs_binary).fresh

    with ThreadPoolExecutor(2) as pool:
        fresh = list(pool.map(start, servers))
    try:
        assert sorted(fresh) == [False, True]
        assert servers[0].report() == servers[1].report()
        assert servers[0].report().is_up
    finally:
        servers[fresh.index(True)].kill()


def test_its_log_and_its_files_hold_no_secret_in_the_open(
    server: LakeFSServer, lakefs_binary: Binary
) -> None:
    state = server.start(lakefs_binary).state
    call(replace(state, secret_access_key="wrong"), "GET", "/user")
    server.stop()

    log = server.log.read_text()
    assert "Initial setup completed successfully" in log
    assert state.secret_access_key not in log
    assert state.encryption_key not in log
    assert stat.S_IMODE(server.directory.stat().st_mode) == 0o700


def test_a_database_made_with_other_credentials_is_said(
    server: LakeFSServer, lakefs_binary: Binary
) -> None:
    server.start(lakefs_binary)
    server.stop()
    (server.directory / "state.json").unlink()

    with pytest.raises(EnvironmentUnfitError, match="does not accept its own credentials"):
        server.start(lakefs_binary)

    assert server.report().status is ServerStatus.STOPPED


def test_a_throwaway_server_keeps_its_port_and_data_over_stop_and_kill(
    tmp_path: Path, lakefs_binary: Binary
) -> None:
    with throwaway_lakefs(tmp_path / "server", lakefs_binary) as server:
        endpoint = server.endpoint
        create(server, "one")
        server.kill()
        server.start()
        create(server, "two")
        server.stop()
        server.start()

        assert server.endpoint == endpoint
        assert repositories(server) == ["one", "two"]


def test_the_shared_server_says_its_version(
    lakefs_server: ThrowawayLakeFS, lakefs_binary: Binary
) -> None:
    status, answer = call(lakefs_server, "GET", "/config/version")

    assert (status, answer["version"]) == (200, lakefs_binary.version)

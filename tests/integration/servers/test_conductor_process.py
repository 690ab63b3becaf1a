"""The real Conductor under `ConductorServer`: starts, crashes and restarts keep its data."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from perago.adapters.servers import (
    CONDUCTOR_VERSION,
    ConductorProgram,
    ThrowawayConductor,
    throwaway_conductor,
)
from tests.conductor_server import SharedConductor

pytestmark = pytest.mark.conductor


def call(
    server: SharedConductor | ThrowawayConductor, method: str, path: str, body: object = None
) -> tuple[int, Any]:
    """One call to the server's API."""
    connection = HTTPConnection(urlsplit(server.endpoint).netloc, timeout=60)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(method, f"/api{path}", json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None
    finally:
        connection.close()


def register(server: SharedConductor | ThrowawayConductor, name: str) -> None:
    body = [{"name": name, "timeoutSeconds": 0, "responseTimeoutSeconds": 60}]
    status, answer = call(server, "POST", "/metadata/taskdefs", body)
    assert status == 200, answer


def test_the_shared_server_takes_definitions(conductor_server: SharedConductor) -> None:
    register(conductor_server, "servers_shared")

    status, answer = call(conductor_server, "GET", "/metadata/taskdefs/servers_shared")

    assert (status, answer["name"]) == (200, "servers_shared")
    assert f"Conductor version: {CONDUCTOR_VERSION}" in conductor_server.log.read_text(
        "utf-8", "replace"
    )


@pytest.mark.timeout(900)  # two starts, on a machine that may be busy
@pytest.mark.torture
def test_a_throwaway_server_keeps_its_port_and_data_over_a_kill_and_stays_in_its_directory(
    tmp_path: Path, conductor_program: ConductorProgram
) -> None:
    with throwaway_conductor(tmp_path / "server", conductor_program) as server:
        endpoint = server.endpoint
        register(server, "kept")
        process = psutil.Process(server.pid)
        listening = [
            connection.laddr.ip.removeprefix("::ffff:")
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        server.kill()
        server.start()

        assert server.endpoint == endpoint
        assert call(server, "GET", "/metadata/taskdefs/kept")[0] == 200
    assert listening == ["127.0.0.1"]
    assert not psutil.pid_exists(process.pid)
    assert (tmp_path / "server" / "conductor.db").is_file()
    # It makes this one in the user's home where nobody tells it otherwise.
    assert (tmp_path / "server" / "worker-payload").is_dir()
    assert not Path("c123.db").exists()

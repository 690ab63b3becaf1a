"""Conductor's process and settings, on a double that answers like it."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from perago.adapters.servers import (
    ConductorProgram,
    ConductorServer,
    ServerStatus,
    throwaway_conductor,
)
from perago.domain.errors import EnvironmentUnfitError
from tests.unit.adapters.servers.doubles import make_conductor


@pytest.fixture
def program(tmp_path: Path) -> ConductorProgram:
    return make_conductor(tmp_path / "java" / "java")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ConductorServer]:
    server = ConductorServer(tmp_path / "dev" / "conductor", tied=True)
    yield server
    server.kill()


def starts(program: ConductorProgram) -> list[dict[str, Any]]:
    """What the double saw each time it was started."""
    record = Path(f"{program.java}.record")
    return [json.loads(line) for line in record.read_text().splitlines()]


def test_it_starts_once_and_keeps_its_port(
    server: ConductorServer, program: ConductorProgram
) -> None:
    first = server.start(program)
    assert first.fresh
    assert not server.start(program).fresh
    assert server.report().is_up
    assert first.state.api == f"http://127.0.0.1:{first.state.port}/api"
    assert server.stop() is True
    assert server.report().status is ServerStatus.STOPPED

    again = server.start(program)

    assert again.state.endpoint == first.state.endpoint
    assert len(starts(program)) == 2


def test_everything_it_is_told_stays_on_loopback_and_in_its_directory(
    tmp_path: Path, program: ConductorProgram
) -> None:
    environment = {
        **os.environ,
        "SPRING_DATASOURCE_URL": "elsewhere",
        "CONDUCTOR_CONFIG_FILE": "elsewhere",
        "JAVA_TOOL_OPTIONS": "elsewhere",
        "OPENAI_API_KEY": "hidden",
    }
    server = ConductorServer(tmp_path / "conductor", environment=environment, tied=True)
    server.start(program)
    server.stop()

    seen = starts(program)[0]
    words = seen["argv"]
    assert "--server.address=127.0.0.1" in words
    assert "--conductor.integrations.ai.enabled=false" in words
    assert f"-Duser.home={server.directory}" in words
    assert f"-Djava.io.tmpdir={server.directory / 'tmp'}" in words
    database = next(word for word in words if word.startswith("--spring.datasource.url="))
    assert database.partition("jdbc:sqlite:")[2].startswith(f"{server.directory}/conductor.db?")
    assert not {"elsewhere", "hidden"} & set(seen["env"].values())


def test_another_server_on_its_port_is_not_taken_for_it(
    tmp_path: Path, server: ConductorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ConductorServer, "start_seconds", 0.5)
    other = make_conductor(tmp_path / "other", first="given['info.instance'] = 'another'")

    with pytest.raises(EnvironmentUnfitError, match="gave no answer for"):
        server.start(other)

    assert server.report().status is ServerStatus.STOPPED
    assert not psutil.pid_exists(starts(other)[0]["pid"])


def test_a_port_that_is_lost_on_the_way_is_tried_again(
    tmp_path: Path, server: ConductorServer
) -> None:
    once = (
        "if not os.path.exists(__file__ + '.second'):\n"
        "    open(__file__ + '.second', 'w').close()\n"
        "    sys.exit('Web server failed to start. Port 1 was already in use.')"
    )
    unlucky = make_conductor(tmp_path / "unlucky", first=once)

    assert server.start(unlucky).fresh
    assert len(starts(unlucky)) == 2


def test_a_taken_port_is_refused(server: ConductorServer, program: ConductorProgram) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(EnvironmentUnfitError, match="is taken"),
    ):
        server.start(program, port=taken.getsockname()[1])


def test_a_directory_that_a_database_url_cannot_name_is_refused(
    tmp_path: Path, program: ConductorProgram
) -> None:
    server = ConductorServer(tmp_path / "what?" / "conductor", tied=True)

    with pytest.raises(EnvironmentUnfitError, match="a question mark is in it"):
        server.start(program)


def test_a_throwaway_server_comes_back_on_its_port(
    tmp_path: Path, program: ConductorProgram
) -> None:
    with throwaway_conductor(tmp_path / "conductor", program) as server:
        endpoint, first = server.endpoint, server.pid
        left = tmp_path / "conductor" / "tmp" / "left"
        left.touch()
        server.kill()
        server.start()

        assert server.endpoint == endpoint
        assert server.pid != first
        assert not left.exists()

"""`perago dev` in real processes: with the real servers, and with tools that make doubles."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from perago.adapters.servers import Binary, ConductorProgram
from perago.system.processes import identify
from tests.acceptance.command_line import CommandLine, Ended
from tests.unit.adapters.servers.doubles import make_go, make_maven

CLIENT = """
import base64, json, os, urllib.request

pair = os.environ["PERAGO_LAKEFS_ACCESS_KEY_ID"], os.environ["PERAGO_LAKEFS_SECRET_ACCESS_KEY"]
basic = base64.b64encode(":".join(pair).encode()).decode()
url = os.environ["PERAGO_LAKEFS_ENDPOINT"] + "/api/v1/user"
request = urllib.request.Request(url, headers={"Authorization": f"Basic {basic}"})
no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
with no_proxy.open(request) as answer:
    print(json.load(answer)["user"]["id"])
"""

needs_lakefs = pytest.mark.lakefs


@dataclass(frozen=True, slots=True, kw_only=True)
class Dev:
    """`perago dev` on one home, for one server."""

    line: CommandLine
    environment: dict[str, str]
    name: str = "lakefs"

    def __call__(self, command: str, *options: str) -> Ended:
        return self.line("dev", command, self.name, *options, **self.environment)

    def server(self) -> Any:
        return self("status", "--json").json["servers"][0]


@pytest.fixture
def perago(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "home")


@pytest.fixture
def dev(perago: CommandLine, lakefs_binary: Binary, tmp_path: Path) -> Iterator[Dev]:
    """A home of its own, with the server's binary on PATH."""
    path = f"{lakefs_binary.path.parent}{os.pathsep}{os.environ['PATH']}"
    dev = Dev(line=perago, environment={"PATH": path})
    yield dev
    dev("down", "--purge")


@pytest.mark.slow
@needs_lakefs
def test_up_env_down(dev: Dev, perago: CommandLine, tmp_path: Path) -> None:
    up = dev("up")
    assert up.code == 0, up.err
    assert "started: http://127.0.0.1:" in up.out
    assert 'eval "$(perago dev env)"' in up.out

    env = dev("env")
    assert env.code == 0, env.err
    exports = dict(
        shlex.split(line)[1].split("=", 1) for line in env.out.splitlines() if "export" in line
    )
    server = dev.server()
    assert exports["PERAGO_STORE"] == "lakefs"
    assert exports["PERAGO_LAKEFS_ENDPOINT"] == server["endpoint"]
    assert exports["PERAGO_LAKEFS_ACCESS_KEY_ID"] == server["access_key_id"]
    assert dev("env", "--json").json == {"environment": exports}
    secret = exports["PERAGO_LAKEFS_SECRET_ACCESS_KEY"]
    assert len(secret) >= 40

    again = dev("up")
    assert again.code == 0
    assert "is already up: http://127.0.0.1:" in again.out
    assert dev.server()["pid"] == server["pid"]
    for said in (up, again, dev("up", "--json"), dev("status"), dev("status", "--json")):
        assert secret not in said.out + said.err
    assert secret not in " ".join(psutil.Process(server["pid"]).cmdline())

    process = identify(server["pid"])
    down = dev("down")
    assert (down.code, down.out.splitlines()[0]) == (0, "lakeFS stopped")
    assert not process.is_alive
    assert dev("up").code == 0
    assert dev("env").out == env.out
    assert dev("down", "--purge").code == 0
    assert not (tmp_path / "home" / "dev" / "lakefs").exists()


@needs_lakefs
def test_the_settings_work_in_a_shell(dev: Dev, perago: CommandLine, tmp_path: Path) -> None:
    client = tmp_path / "client.py"
    client.write_text(CLIENT)
    assert dev("up").code == 0

    asked = perago.shell(
        'eval "$(perago dev env)" && echo $PERAGO_STORE && '
        f"{shlex.quote(sys.executable)} {shlex.quote(str(client))}"
    )

    assert asked.code == 0, asked.err
    assert asked.out == "lakefs\nperago\n"


@pytest.mark.slow
@needs_lakefs
def test_status_tells_running_from_stale_from_stopped(dev: Dev) -> None:
    nothing = dev("status")
    assert nothing.code == 1
    assert "not running" in nothing.out

    dev("up")
    running = dev("status")
    assert running.code == 0
    assert "running" in running.out

    pid = dev.server()["pid"]
    os.kill(pid, signal.SIGKILL)
    dev.line.wait_until(lambda _: dev.server()["status"] == "stale")
    assert dev("status").code == 1
    refused = dev("env")
    assert (refused.code, refused.out) == (3, "")
    assert "hint: start with `perago dev up lakefs`" in refused.err

    assert dev("up").code == 0
    assert dev.server()["status"] == "running"
    assert dev.server()["pid"] != pid


@needs_lakefs
def test_two_at_once_start_one_server(dev: Dev) -> None:
    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(lambda _: dev("up", "--json"), range(2)))

    assert [one.code for one in ended] == [0, 0], [one.err for one in ended]
    servers = [one.json["servers"][0] for one in ended]
    assert sorted(server["started"] for server in servers) == [False, True]
    assert len({server["pid"] for server in servers}) == 1


@needs_lakefs
def test_a_port_can_be_chosen_unless_it_is_taken(dev: Dev) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = dev("up", "--port", str(port))
    assert refused.code == 3
    assert f"error: port {port} of 127.0.0.1 is taken" in refused.err

    assert dev("up", "--port", str(port)).code == 0
    assert dev.server()["endpoint"] == f"http://127.0.0.1:{port}"
    refused = dev("up", "--port", str(port - 1))
    assert refused.code == 2
    assert f"already runs at http://127.0.0.1:{port}" in refused.err

    dev("down")
    with socket.create_server(("127.0.0.1", port)):
        moved = dev("up")
    assert moved.code == 0
    assert f"warning: it had port {port} before" in moved.err
    assert dev.server()["endpoint"] != f"http://127.0.0.1:{port}"


def test_down_without_a_server_is_content(perago: CommandLine) -> None:
    down = perago("dev", "down", "--json")

    assert down.code == 0
    assert down.json == {
        "servers": [
            {"name": "lakefs", "stopped": False, "purged": False},
            {"name": "conductor", "stopped": False, "purged": False},
        ]
    }
    assert not perago.home.exists()


def test_it_is_built_with_go_where_there_is_none(perago: CommandLine, tmp_path: Path) -> None:
    go = make_go(tmp_path / "go")
    environment = {**go.environment, "PERAGO_CACHE_DIRECTORY": str(tmp_path / "cache")}

    built = perago("dev", "build", "lakefs", **environment)
    again = perago("dev", "build", "lakefs", "--json", **environment)

    program = tmp_path / "cache" / "servers" / "lakefs-1.86.0" / "lakefs"
    assert built.code == 0, built.err
    assert built.out == f"lakeFS 1.86.0: {program} (build)\n"
    assert "downloading lakeFS 1.86.0 …" in built.err
    assert "compiling lakeFS 1.86.0" in built.err
    assert again.json["binaries"][0]["source"] == "cache"
    assert len(go.calls) == 2


def test_a_build_that_fails_is_one_error_with_what_go_said(
    perago: CommandLine, tmp_path: Path
) -> None:
    go = make_go(tmp_path / "go", compile_="echo cannot find package x >&2; exit 1")

    up = perago(
        "dev",
        "up",
        "lakefs",
        **{**go.environment, "PERAGO_CACHE_DIRECTORY": str(tmp_path / "cache")},
    )

    assert up.code == 3
    assert up.out == ""
    assert "error: cannot build lakeFS 1.86.0: `go build` failed: exit code 1\n" in up.err
    assert "cannot find package x\nhint: " in up.err
    assert perago("dev", "status").code == 1


def test_ctrl_c_ends_the_build(perago: CommandLine, tmp_path: Path) -> None:
    go = make_go(tmp_path / "go", compile_='echo half > "$2"; sleep 600')
    environment = {**go.environment, "PERAGO_CACHE_DIRECTORY": str(tmp_path / "cache")}
    with perago.start("dev", "up", "lakefs", **environment) as up:
        up.wait_for("compiling")
        perago.wait_until(lambda _: len(go.pids) == 2)
        builder = identify(go.pids[-1])
        up.signal(signal.SIGINT)
        assert up.end() == 130, up.lines

    # A killed process counts as alive until its new parent has reaped it.
    perago.wait_until(lambda _: not builder.is_alive)
    kept = (tmp_path / "cache" / "servers" / "lakefs-1.86.0").iterdir()
    assert [path.name for path in kept] == [".lock"]


def test_one_that_cannot_be_had_does_not_stop_the_other(
    perago: CommandLine, tmp_path: Path
) -> None:
    go = make_go(tmp_path / "go")
    maven = make_maven(go.directory, get="echo no route to host; exit 1")
    environment = {**go.environment, "PERAGO_CACHE_DIRECTORY": str(tmp_path / "cache")}

    built = perago("dev", "build", **environment)
    again = perago("dev", "build", "--json", **environment)

    assert built.code == again.code == 3
    assert built.out.startswith("lakeFS 1.86.0: ")
    assert "error: cannot fetch Conductor 3.32.1 with Maven: exit code 1" in built.err
    lakefs, conductor = again.json["binaries"]
    assert lakefs["source"] == "cache"
    assert conductor["name"] == "conductor"
    assert conductor["error"]["type"] == "EnvironmentUnfitError"
    assert "no route to host" in conductor["error"]["message"]
    assert len(maven.calls) == 2


def test_a_port_is_for_one_server(perago: CommandLine) -> None:
    refused = perago("dev", "up", "--port", "20001")

    assert refused.code == 2
    assert "perago dev up lakefs --port 20001" in refused.err
    assert not perago.home.exists()


@pytest.mark.slow
@pytest.mark.conductor
def test_conductor_up_env_down(perago: CommandLine, conductor_program: ConductorProgram) -> None:
    environment = {"PERAGO_CACHE_DIRECTORY": str(conductor_program.jar.path.parents[2])}
    dev = Dev(line=perago, environment=environment, name="conductor")
    try:
        # Not a plain call, whose patience is shorter than the start on a busy machine.
        with perago.start("dev", "up", "conductor", **environment) as up:
            said = up.wait_for("Conductor 3.32.1 started")
            assert up.end() == 0, up.lines
        server = dev.server()
        process = identify(server["pid"])
        env = dev("env")
        # Without a name: those that run. lakeFS was never started.
        every = perago("dev", "env", "--json", **environment)
        both = perago("dev", "status", **environment)
        one = perago("dev", "status", "lakefs", **environment)
    finally:
        down = dev("down", "--purge")

    assert said == f"Conductor 3.32.1 started: {server['endpoint']} (process {server['pid']})"
    assert server["status"] == "running"
    assert env.out == f"export PERAGO_CONDUCTOR_URL={server['api']}\n"
    assert server["api"] == f"{server['endpoint']}/api"
    assert every.json == {"environment": {"PERAGO_CONDUCTOR_URL": server["api"]}}
    assert (both.code, one.code) == (0, 1)
    assert down.out.splitlines()[0] == "Conductor stopped"
    assert not (perago.home / "dev" / "conductor").exists()
    assert not process.is_alive

"""The server's process, state and credentials, on a double that answers like lakeFS."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from perago.adapters.servers import (
    Binary,
    LakeFSServer,
    LakeFSState,
    ServerStatus,
    throwaway_lakefs,
)
from perago.adapters.servers.processes import choose_free_port, read_tail
from perago.adapters.servers.states import read_state, write_state
from perago.domain.errors import EnvironmentUnfitError, UsageError
from perago.system.processes import ProcessIdentity, identify
from tests.unit.adapters.servers.doubles import make_lakefs

HOLDER = """
import sys, time
from pathlib import Path
from perago.adapters.servers import throwaway_lakefs
from tests.unit.adapters.servers.doubles import make_lakefs

with throwaway_lakefs(Path(sys.argv[1]), make_lakefs(Path(sys.argv[2]))) as server:
    print(server.pid, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def binary(tmp_path: Path) -> Binary:
    return make_lakefs(tmp_path / "bin" / "lakefs")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LakeFSServer]:
    server = LakeFSServer(tmp_path / "dev" / "lakefs", tied=True)
    yield server
    server.kill()


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is none of ours."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


def starts(binary: Binary) -> list[dict[str, Any]]:
    """What the double saw each time it was started."""
    record = Path(f"{binary.path}.record")
    return [json.loads(line) for line in record.read_text().splitlines()]


def state_of(server: LakeFSServer) -> LakeFSState:
    state = read_state(server.directory, LakeFSState)
    assert state is not None
    return state


def process_of(server: LakeFSServer) -> ProcessIdentity:
    process = state_of(server).process
    assert process is not None
    return process


def test_it_starts_once_and_stops(server: LakeFSServer, binary: Binary) -> None:
    assert server.report().status is ServerStatus.STOPPED

    first = server.start(binary)
    second = server.start(binary)

    assert (first.fresh, second.fresh) == (True, False)
    assert first.state == second.state
    assert server.report().is_up
    assert len(starts(binary)) == 1

    process = process_of(server)
    assert server.stop() is True
    assert not process.is_alive
    assert server.report().status is ServerStatus.STOPPED
    assert server.stop() is False


def test_the_next_start_has_the_same_port_and_credentials(
    server: LakeFSServer, binary: Binary
) -> None:
    before = server.start(binary).state
    server.stop()
    after = server.start(binary).state

    assert replace(after, process=None) == replace(before, process=None)
    assert server.log.with_suffix(".log.1").exists()


def test_every_directory_has_credentials_of_its_own(tmp_path: Path, binary: Binary) -> None:
    with (
        throwaway_lakefs(tmp_path / "one", binary) as one,
        throwaway_lakefs(tmp_path / "two", binary) as two,
    ):
        assert one.port != two.port
        assert one.access_key_id != two.access_key_id
        assert one.secret_access_key != two.secret_access_key


def test_secrets_are_in_the_environment_and_in_private_files_only(
    server: LakeFSServer, binary: Binary
) -> None:
    state = server.start(binary).state

    seen = starts(binary)[0]
    assert seen["env"]["LAKEFS_INSTALLATION_SECRET_ACCESS_KEY"] == state.secret_access_key
    assert seen["env"]["LAKEFS_AUTH_ENCRYPT_SECRET_KEY"] == state.encryption_key
    for secret in (state.secret_access_key, state.encryption_key):
        assert secret not in " ".join(seen["argv"])
        assert secret not in repr(state)
        assert secret not in repr(server.report())
    assert stat.S_IMODE(server.directory.stat().st_mode) == 0o700
    for path in server.directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


def test_nothing_of_the_callers_own_lakefs_reaches_it(tmp_path: Path, binary: Binary) -> None:
    environment = {
        **os.environ,
        "LAKEFS_DATABASE_TYPE": "postgres",
        "LAKEFS_LOGGING_LEVEL": "TRACE",
        "AWS_SECRET_ACCESS_KEY": "hidden",
        "PERAGO_LAKEFS_SECRET_ACCESS_KEY": "hidden",
    }
    server = LakeFSServer(tmp_path / "lakefs", environment=environment, tied=True)
    server.start(binary)
    server.stop()

    seen = starts(binary)[0]["env"]
    assert seen["LAKEFS_DATABASE_TYPE"] == "local"
    assert seen["LAKEFS_STATS_ENABLED"] == "false"
    assert Path(seen["LAKEFS_COMMITTED_LOCAL_CACHE_DIR"]).parent == server.directory
    assert "LAKEFS_LOGGING_LEVEL" not in seen
    assert "hidden" not in seen.values()


def test_two_starts_at_once_start_one(tmp_path: Path, binary: Binary) -> None:
    servers = [LakeFSServer(tmp_path / "lakefs", tied=True) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        started = list(pool.map(lambda server: server.start(binary), servers))

    assert sorted(one.fresh for one in started) == [False, False, False, True]
    assert len({one.state.process for one in started}) == 1
    assert len(starts(binary)) == 1
    fresh = next(s for s, one in zip(servers, started, strict=True) if one.fresh)
    fresh.stop()


def test_a_killed_server_is_stale_and_starts_again(server: LakeFSServer, binary: Binary) -> None:
    before = server.start(binary).state
    killed = process_of(server)
    os.kill(killed.pid, signal.SIGKILL)
    while killed.is_alive:
        time.sleep(0.01)

    assert server.report().status is ServerStatus.STALE

    again = server.start(binary)
    assert again.fresh
    assert again.state.endpoint == before.endpoint
    assert server.report().is_up


def test_a_server_that_hears_no_sigterm_is_killed(server: LakeFSServer, tmp_path: Path) -> None:
    deaf = make_lakefs(tmp_path / "deaf", first="signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    server.start(deaf)
    process = process_of(server)

    assert server.stop(grace_seconds=0.1) is True
    assert not process.is_alive


def test_a_process_that_merely_has_the_pid_is_left_alone(
    server: LakeFSServer, binary: Binary, stranger: subprocess.Popen[bytes]
) -> None:
    server.start(binary)
    server.stop()
    living = identify(stranger.pid)
    recorded = replace(living, born=living.born - 10)
    write_state(server.directory, replace(state_of(server), process=recorded))

    assert server.report().status is ServerStatus.STALE
    assert server.kill() is False
    assert stranger.poll() is None
    assert server.start(binary).fresh


def test_a_taken_port_is_refused_when_it_was_asked_for(
    server: LakeFSServer, binary: Binary
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EnvironmentUnfitError, match=f"port {port} of 127.0.0.1 is taken"):
            server.start(binary, port=port)

    assert server.report().status is ServerStatus.STOPPED


def test_a_port_that_was_taken_meanwhile_is_replaced(server: LakeFSServer, binary: Binary) -> None:
    before = server.start(binary).state
    server.stop()
    with socket.create_server(("127.0.0.1", before.port)):
        after = server.start(binary).state

    assert after.port != before.port
    assert after.secret_access_key == before.secret_access_key


def test_a_port_that_is_lost_on_the_way_is_tried_again(
    server: LakeFSServer, tmp_path: Path
) -> None:
    once = (
        "if not os.path.exists(__file__ + '.second'):\n"
        "    open(__file__ + '.second', 'w').close()\n"
        "    sys.exit('Failed to listen: bind: address already in use')"
    )
    unlucky = make_lakefs(tmp_path / "unlucky", first=once)

    assert server.start(unlucky).fresh
    assert len(starts(unlucky)) == 2


def test_a_running_server_is_not_moved_to_another_port(
    server: LakeFSServer, binary: Binary
) -> None:
    server.start(binary)

    with pytest.raises(UsageError, match="already runs at"):
        server.start(binary, port=choose_free_port())


def test_a_server_that_ends_at_once_shows_the_end_of_its_log(
    server: LakeFSServer, tmp_path: Path
) -> None:
    broken = make_lakefs(tmp_path / "broken", first="sys.exit('database: version mismatch')")

    with pytest.raises(EnvironmentUnfitError) as caught:
        server.start(broken)

    assert caught.value.message == (
        "lakeFS ended with exit code 1 as it started:\ndatabase: version mismatch"
    )
    assert str(server.log) in str(caught.value.hint)
    assert server.report().status is ServerStatus.STOPPED


def test_a_program_that_cannot_be_started_is_named(server: LakeFSServer, tmp_path: Path) -> None:
    nothing = replace(make_lakefs(tmp_path / "lakefs"), path=tmp_path / "missing")

    with pytest.raises(EnvironmentUnfitError, match=r"cannot start .*missing: No such file"):
        server.start(nothing)


def test_a_server_that_does_not_know_its_key_is_not_used(
    server: LakeFSServer, tmp_path: Path
) -> None:
    other = "os.environ['LAKEFS_INSTALLATION_SECRET_ACCESS_KEY'] = 'another'"
    foreign = make_lakefs(tmp_path / "foreign", first=other)

    with pytest.raises(EnvironmentUnfitError, match=r"does not accept its own credentials \(401\)"):
        server.start(foreign)

    assert psutil.pid_exists(starts(foreign)[0]["pid"]) is False
    assert server.report().status is ServerStatus.STOPPED


def test_purging_stops_it_and_removes_everything(server: LakeFSServer, binary: Binary) -> None:
    before = server.start(binary).state

    assert server.purge() is True
    assert not server.directory.exists()
    assert before.process is not None
    assert not before.process.is_alive
    assert server.purge() is False
    assert server.start(binary).state.secret_access_key != before.secret_access_key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"port": 1, "process": null}',
        "\x00",
        pytest.param("[" * 60_000, id="deep"),
        pytest.param(" " * 1_000_000, id="long"),
        pytest.param('{"port": 1%s, "process": null}' % ("0" * 5000), id="a huge port"),
        '{"port": "1", "process": null}',
        '{"port": NaN, "process": null}',
        '{"port": 1, "process": {"pid": 1e400, "boot": "", "born": 1}}',
        '{"port": 1, "process": {"pid": -1, "boot": "", "born": 1}}',
    ],
)
def test_a_damaged_state_is_refused_by_name(server: LakeFSServer, text: str) -> None:
    server.directory.mkdir(parents=True)
    (server.directory / "state.json").write_text(text)

    with pytest.raises(EnvironmentUnfitError, match=r"state\.json is no state of a server"):
        server.report()
    (server.directory / "state.json").unlink()


def test_a_directory_that_is_not_ours_is_neither_used_nor_purged(
    server: LakeFSServer, binary: Binary
) -> None:
    server.directory.mkdir(parents=True)
    (server.directory / "precious").write_text("x")

    with pytest.raises(EnvironmentUnfitError, match="it has 'precious'"):
        server.start(binary)
    with pytest.raises(EnvironmentUnfitError, match="it has 'precious'"):
        server.purge()

    assert (server.directory / "precious").exists()


def test_a_throwaway_server_comes_back_on_its_port(tmp_path: Path, binary: Binary) -> None:
    with throwaway_lakefs(tmp_path / "lakefs", binary) as server:
        endpoint, first = server.endpoint, server.pid
        server.kill()
        killed = server.pid
        server.start()
        second = server.pid
        server.stop()
        server.start()
        third = server.pid

        assert server.endpoint == endpoint
    assert killed is None
    assert len({first, second, third}) == 3
    assert third is not None
    assert not psutil.pid_exists(third)


def test_a_throwaway_server_ends_with_the_process_that_started_it(
    tmp_path: Path, project_root: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "lakefs"), str(tmp_path / "double")],
        stdout=subprocess.PIPE,
        cwd=project_root,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        server = psutil.Process(int(holder.stdout.readline()))
        holder.kill()

    # Bounded by pytest's own time-out: it is gone, or a zombie that nobody reaps here.
    while server.is_running() and server.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert holder.returncode == -signal.SIGKILL


def test_the_end_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n\n".join(f"line {number}" for number in range(5000)))

    assert read_tail(log, 2) == "line 4998\nline 4999"
    assert read_tail(tmp_path / "missing") == ""

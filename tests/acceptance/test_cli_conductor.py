"""`perago register`, `run`, `status` and their like on a real Conductor, as a user sees them.

Names are each test's own: the server is shared by all tests of a session.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from perago.adapters.conductor import ConductorConnection, ConductorOrchestrator
from perago.cli.errors import ExitCode
from perago.domain.ids import WorkflowId
from tests.acceptance.command_line import NOTES, CommandLine, Running, steps_of

if TYPE_CHECKING:
    from perago.adapters.servers import ThrowawayLakeFS
    from tests.conductor_server import SharedConductor

pytestmark = [pytest.mark.conductor, pytest.mark.slow]


@pytest.fixture
def mark() -> str:
    return uuid4().hex[:8]


@pytest.fixture
def target(tmp_path: Path, mark: str) -> str:
    """The notes pipelines under names that no other test has.

    The tests' repositories have such names, too: one run at a time may write a branch of one.
    """
    text = Path(NOTES).read_text(encoding="utf-8")
    for name in ("write", "shout", "notes", "gated"):
        text = text.replace(f'task("{name}"', f'task("{name}_{mark}"')
        text = text.replace(f'Pipeline("{name}"', f'Pipeline("{name}_{mark}"')
        text = text.replace(f'\n    "{name}", 1', f'\n    "{name}_{mark}", 1')
    file = tmp_path / f"job_{mark}.py"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.fixture
def perago(conductor_server: SharedConductor, tmp_path: Path) -> CommandLine:
    settings = {"HOME": str(tmp_path), "CONDUCTOR_SERVER_URL": conductor_server.api}
    return CommandLine(tmp_path / "home", settings)


@pytest.fixture
def server(conductor_server: SharedConductor) -> Iterator[ConductorOrchestrator]:
    with ConductorOrchestrator(ConductorConnection(url=conductor_server.endpoint)) as opened:
        yield opened


def worker(perago: CommandLine, target: str) -> Running:
    """One that serves the target, whose tasks it must find registered."""
    assert perago("register", target).code == 0
    return perago.start("start", target)


def test_registering_is_idempotent_on_a_real_server(
    perago: CommandLine, server: ConductorOrchestrator, target: str, mark: str
) -> None:
    dry_run = perago("register", target, "--dry-run")
    assert (dry_run.code, server.find_task_definition(f"write_{mark}")) == (0, None)

    first, second = perago("register", target), perago("register", target)
    changed = Path(target).read_text().replace("count=5", "count=6").replace('", 1', '", 2')
    Path(target).write_text(changed)
    third, fourth = perago("register", target), perago("register", target, "--json")
    Path(target).write_text(changed.replace('", 2', '", 1'))
    lowered = perago("register", target)

    assert "registered 4 definitions (4 new, 0 changed, 0 unchanged)" in first.out
    assert "nothing to do: 4 definitions" in second.out
    assert "    retryCount: 5 -> 6" in third.out
    assert "registered 4 definitions (2 new, 2 changed, 0 unchanged)" in third.out
    assert (fourth.code, fourth.json["written"]) == (0, 0)
    assert lowered.code == ExitCode.USAGE
    assert "the server has version 2, newer than the code" in lowered.err
    found = server.find_task_definition(f"write_{mark}")
    assert found is not None
    assert (found["retryCount"], found["inputSchema"] is not None) == (6, True)


def test_nothing_is_registered_silently(
    perago: CommandLine, server: ConductorOrchestrator, target: str, mark: str
) -> None:
    refused = perago("run", f"{target}:notes")

    assert refused.code == ExitCode.USAGE
    assert f"workflow notes_{mark} v1 is not registered" in refused.err
    assert "perago register" in refused.err
    assert "--register" in refused.err
    assert server.find_task_definition(f"write_{mark}") is None
    many = perago("run", f"{target}:notes", "-j", "2")
    assert (many.code, "perago start" in many.err) == (ExitCode.USAGE, True)


def test_a_run_is_started_followed_and_reported(
    perago: CommandLine, target: str, mark: str
) -> None:
    with worker(perago, target):
        done = perago("run", f"{target}:notes", "--json", "--repo", "lab")
        failed = perago("run", f"{target}:notes", "--param", "broken=true", "--repo", "other")

    events = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0, done
    assert events[0]["event"] == "run_began"
    assert events[0]["orchestrator"].startswith("Conductor at http://127.0.0.1:")
    kinds = [(event["event"], event.get("step")) for event in events[1:-1]]
    assert kinds == [
        ("step_started", f"write_{mark}"),
        ("progress", f"write_{mark}"),
        ("step_completed", f"write_{mark}"),
        ("step_started", f"shout_{mark}"),
        ("step_completed", f"shout_{mark}"),
    ]
    history = perago.history("lab")
    assert steps_of(history) == [f"write_{mark}", f"shout_{mark}"]
    end = events[-1]
    assert [commit["commit"] for commit in end["commits"]] == [one.id for one in history[1:]]
    assert end["output"]["workspace"]["ref"] == history[-1].id
    assert failed.code == ExitCode.FAILED
    assert "the pen is broken" in failed.out
    assert steps_of(perago.history("other")) == []


def run_of(lines: Sequence[str]) -> WorkflowId:
    """The run that a `perago run` said it began; others use the same server."""
    for line in lines:
        if found := re.search(r"\brun ([0-9a-f-]{36}): ", line):
            return WorkflowId(found[1])
    raise AssertionError(f"no run was begun: {lines}")


def test_ctrl_c_stops_the_following_and_not_the_run(
    perago: CommandLine, server: ConductorOrchestrator, target: str, tmp_path: Path, mark: str
) -> None:
    gate = tmp_path / "gate"
    with worker(perago, target):
        arguments = ("run", f"{target}:notes", "--param", f"gate={gate}", "--repo", mark)
        with perago.start(*arguments) as following:
            following.wait_for("at the gate")
            following.signal(signal.SIGINT)
            code = following.end()
        run = run_of(following.lines)
        still_running = server.workflow(run).status
        gate.touch()
        again = perago("run", f"{target}:notes", "--continue", run)

    assert code == ExitCode.INTERRUPTED
    assert any("the run goes on without it" in line for line in following.lines)
    assert any(f"--continue {run}" in line for line in following.lines)
    assert still_running == "RUNNING"
    assert again.code == 0, again
    assert f"run {run[:8]} completed in" in again.out
    assert f"shout_{mark}" in again.out


def test_a_detached_run_waits_for_a_worker_and_a_person(
    perago: CommandLine, target: str, mark: str
) -> None:
    detached = perago("run", f"{target}:gated", "--register", "--detach", "--repo", mark)
    run = detached.out.strip()
    assert (detached.code, len(run.split())) == (0, 1)

    with perago.start("run", f"{target}:gated", "--continue", run) as following:
        hint = following.wait_for("for a worker")
        with worker(perago, target):
            following.wait_for("waits for a person")
            status = perago("status", run, "--json")
            completed = perago("complete", run, "approve")
            code = following.end()
    logs, runs = perago("logs", run), perago("status", "--pipeline", f"gated_{mark}")

    assert f"perago start {target}:gated" in hint
    assert [one["step"] for one in status.json["run"]["attempts"]] == [f"write_{mark}", "approve"]
    assert completed.code == 0, completed
    assert code == 0, following.lines
    assert "at the gate" in logs.out
    assert "on the hosts of their workers" in logs.err
    assert run[:8] in runs.out, runs


def test_a_run_that_nobody_serves_can_be_cancelled(
    perago: CommandLine, target: str, mark: str
) -> None:
    run = perago("run", f"{target}:notes", "--register", "--detach", "--repo", mark).out.strip()

    second = perago("run", f"{target}:notes", "--detach", "--repo", mark)
    cancelled = perago("cancel", run, "--reason", "enough")
    over = perago("run", f"{target}:notes", "--continue", run)

    assert second.code == ExitCode.USAGE
    assert f"run {run}" in second.err
    assert cancelled.code == 0
    assert over.code == ExitCode.FAILED
    assert "enough" in over.out


def test_doctor_looks_at_the_server_and_at_what_it_has(perago: CommandLine, target: str) -> None:
    before = perago("doctor", "--target", target)
    perago("register", target)
    after = perago("doctor", "--target", target)

    assert before.code == ExitCode.FAILED
    assert "the server has not what the code declares" in before.out
    assert after.code == 0, after
    assert "Conductor 3.32.1" in after.out
    assert "4 definitions registered as declared" in after.out


@pytest.mark.lakefs
def test_on_conductor_and_lakefs_no_home_is_needed_to_look(
    perago: CommandLine, lakefs_server: ThrowawayLakeFS, target: str, tmp_path: Path, mark: str
) -> None:
    servers = {
        **perago.settings,
        "PERAGO_LAKEFS_ENDPOINT": lakefs_server.endpoint,
        "PERAGO_LAKEFS_ACCESS_KEY_ID": lakefs_server.access_key_id,
        "PERAGO_LAKEFS_SECRET_ACCESS_KEY": lakefs_server.secret_access_key,
        "PERAGO_CACHE_DIRECTORY": str(tmp_path / "cache"),
    }
    host, visitor = CommandLine(tmp_path / "host", servers), CommandLine(tmp_path / "none", servers)
    repo = f"conductor-{mark}"
    with worker(host, target):
        done = visitor("run", f"{target}:notes", "--repo", repo)
    run = run_of(done.out.splitlines())
    logs, collected = visitor("logs", run), visitor("gc", "--staging", repo)

    assert done.code == 0, done
    assert f"write_{mark}: completed" in done.out
    assert "at the gate" in logs.out
    assert (collected.code, collected.out) == (0, "removed 0 stagings, left 0\n")
    assert not visitor.home.exists()

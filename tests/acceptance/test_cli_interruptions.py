"""Ctrl-C, SIGTERM, kill -9 and a second worker: a run is never lost, and never doubled."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.acceptance.command_line import NOTES, CommandLine, steps_of


@pytest.fixture
def perago(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "home")


def test_ctrl_c_lets_the_step_finish_and_says_how_to_go_on(
    perago: CommandLine, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with perago.start("run", f"{NOTES}:notes", "--param", f"gate={gate}") as run:
        run.wait_for("at the gate")
        run.signal(signal.SIGINT)
        run.wait_for("stopping: running attempts may finish")
        gate.touch()
        code = run.end()

    assert code == 130, run.lines
    assert run.lines[-2] == "interrupted; the run goes on with:"
    assert steps_of(perago.history("workspace")) == ["write"]

    continued = perago.shell(run.lines[-1].strip())
    assert continued.code == 0, continued.err
    assert "write: started" not in continued.out
    assert steps_of(perago.history("workspace")) == ["write", "shout"]


def test_a_second_signal_gives_the_step_up(perago: CommandLine, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with perago.start("run", f"{NOTES}:notes", "--param", f"gate={gate}") as run:
        run.wait_for("at the gate")
        run.signal(signal.SIGTERM)
        run.wait_for("stopping: running attempts may finish")
        run.signal(signal.SIGTERM)
        run.wait_for("stopping now")
        code = run.end()

    assert code == 130, run.lines
    assert any("write: given up" in line for line in run.lines)
    assert steps_of(perago.history("workspace")) == []

    gate.touch()
    continued = perago("run", f"{NOTES}:notes", "--continue", "last")
    assert continued.code == 0, continued.err
    assert "write: started again (retry 1)" in continued.out


def test_kill_9_between_publication_and_report_leaves_one_commit_per_step(
    perago: CommandLine,
) -> None:
    def has_published_shout(line: CommandLine) -> bool:
        return steps_of(line.history("workspace"))[-1:] == ["shout"]

    with perago.start(
        "run", f"{NOTES}:notes", PERAGO_FAILPOINTS="published=pause:600@shout"
    ) as run:
        run.wait_for("shout: started")
        perago.wait_until(has_published_shout)
        abandoned = perago.history("workspace")[-1].id
        second = perago("run", f"{NOTES}:notes", "--repo", "other")
        run.signal(signal.SIGKILL)
        assert run.end() == -signal.SIGKILL

    assert second.code == 3
    assert "is held by process" in second.err
    assert "created repository" not in second.err

    continued = perago("run", f"{NOTES}:notes", "--continue", "last")

    history = perago.history("workspace")
    assert continued.code == 0, continued.err
    assert "shout: started again (retry 1)" in continued.out
    assert steps_of(history) == ["write", "shout"]
    assert abandoned not in [commit.id for commit in history]
    runs = perago("status", "--json").json["runs"]
    assert [run["status"] for run in runs] == ["COMPLETED"]
    assert perago("store", "verify").code == 0

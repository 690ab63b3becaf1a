"""`perago run` from beginning to end, as a user sees it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.command_line import NOTES, PATIENCE_SECONDS, PERAGO, CommandLine, steps_of


@pytest.fixture
def perago(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "home")


def test_a_run_makes_a_commit_per_step_and_a_second_one_none(perago: CommandLine) -> None:
    first = perago("run", f"{NOTES}:notes", "--repo", "lab", "--param", "text=good day")
    history = perago.history("lab")
    second = perago("run", f"{NOTES}:notes", "--repo", "lab", "--param", "text=good day", "--json")

    assert first.code == 0, first.err
    assert first.err == "created repository lab\n"
    assert steps_of(history) == ["write", "shout"]
    for commit in history[1:]:
        assert commit.id[:12] in first.out
    assert "history:  perago store log lab@main" in first.out

    events = [json.loads(line) for line in second.out.splitlines()]
    assert second.code == 0, second.err
    assert (events[0]["event"], events[-1]["event"]) == ("run_began", "run_ended")
    assert [event["step"] for event in events if event["event"] == "step_completed"] == [
        "write",
        "shout",
    ]
    assert events[-1]["commits"] == []
    assert events[-1]["output"]["results"]["write"] == {"characters": 8}
    assert perago.history("lab") == history

    logs = perago("logs", "last", "write").out
    assert "writing good day" in logs
    assert "at the gate" in logs


def test_a_single_task_is_a_pipeline_and_a_terminal_failure_fails_the_run(
    perago: CommandLine,
) -> None:
    failed = perago("run", f"{NOTES}:write", "--param", "broken=true")

    assert failed.code == 1
    assert "write failed after 1 attempt: the pen is broken" in failed.out
    assert steps_of(perago.history("workspace")) == []
    (shown,) = re.findall(r"logs: +(perago logs \S+ write)", failed.out)
    assert "TaskTerminalError: the pen is broken" in perago.shell(shown).out


def test_an_executor_that_dies_after_publication_is_replaced(perago: CommandLine) -> None:
    ended = perago("run", f"{NOTES}:notes", PERAGO_FAILPOINTS="published=kill@write#0")

    history = perago.history("workspace")
    assert ended.code == 0, ended.out
    assert "an executor died in write: killed by SIGKILL" in ended.out
    assert "write: started again (retry 1)" in ended.out
    assert steps_of(history) == ["write", "shout"]
    assert history[1].metadata["perago.retry"] == "1"


def test_a_person_completes_a_step_with_the_command_that_was_shown(perago: CommandLine) -> None:
    with perago.start("run", f"{NOTES}:gated") as run:
        line = run.wait_for("waits for a person")
        (command,) = re.findall(r"`(perago complete .*)`", line)
        completed = perago.shell(command)
        code = run.end()

    assert completed.code == 0, completed.err
    assert code == 0, run.lines
    assert steps_of(perago.history("workspace")) == ["write", "shout"]


def test_a_cancelled_run_ends_with_1(perago: CommandLine, tmp_path: Path) -> None:
    with perago.start("run", f"{NOTES}:notes", "--param", f"gate={tmp_path / 'never'}") as run:
        run.wait_for("at the gate")
        cancelled = perago("cancel", "last", "--reason", "enough")
        code = run.end()

    assert cancelled.code == 0
    assert code == 1
    assert "write: given up" in "\n".join(run.lines)
    assert run.lines[-3:-1] == ["enough", "history:  perago store log workspace@main"]
    assert steps_of(perago.history("workspace")) == []


def test_a_terminal_sees_the_steps_tick_off(perago: CommandLine) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PERAGO, "run", f"{NOTES}:notes"],
        env=perago.environment({"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "100"}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        screen = bytearray()
        while chunk := _read(ours):
            screen += chunk
        code = process.wait(timeout=PATIENCE_SECONDS)
    os.close(ours)

    text = screen.decode()
    assert code == 0, text
    frame = text[text.rindex("✓  write") :]
    assert "✓  shout" in frame
    assert "completed in" in frame
    assert "\x1b[3" not in text  # NO_COLOR


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how Linux says that the other side is closed
        return b""

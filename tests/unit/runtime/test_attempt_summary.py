"""One line for each attempt, with what it cost, whatever became of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from perago.domain.changes import ChangeCount
from perago.domain.events import ExecutorDied
from perago.domain.execution import Execution
from perago.domain.outcome import Completed, Failed, Phase
from perago.runtime.attempt_summary import AttemptSummaries
from perago.runtime.log_context import ATTEMPT_FIELDS
from perago.runtime.log_lines import JsonLines
from perago.testing import FakeClock
from tests.unit.runtime.executions import an_execution
from tests.unit.runtime.told_attempt import ToldAttempt


class Lines(logging.Handler):
    """What a worker's stream would hold."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self.lines: list[dict[str, object]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


class Scene:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.summaries = AttemptSummaries()
        self.lines = Lines()

    def run(self, execution: Execution, *phases: tuple[Phase, float, int, int]) -> ToldAttempt:
        told = ToldAttempt(self.summaries, execution, self.clock)
        told.start()
        for phase, seconds, objects, size in phases:
            told.enter(phase)
            self.clock.advance(seconds)
            if objects:
                told.move(objects, size)
            told.leave(seconds)
        return told


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    logger = logging.getLogger("perago.attempt")
    before = logger.level
    logger.addHandler(made.lines)
    logger.setLevel(logging.INFO)
    yield made
    logger.removeHandler(made.lines)
    logger.setLevel(before)


def test_a_completed_attempt(scene: Scene) -> None:
    execution = an_execution()
    told = scene.run(
        execution,
        (Phase.DOWNLOAD, 1.5, 3, 300),
        (Phase.BODY, 2.0, 0, 0),
        (Phase.STAGE, 0.5, 2, 20),
    )
    output = Completed(output={"workspace": {"ref": "beef"}, "result": {}})
    told.end(output, ChangeCount(written=2, deleted=1))

    (line,) = scene.lines.lines
    assert line["level"] == "INFO"
    assert set(ATTEMPT_FIELDS) <= line.keys()
    assert line["summary"] == {
        "status": "COMPLETED",
        "seconds": 4.0,
        "phases": {"download": 1.5, "body": 2.0, "stage": 0.5},
        "down": {"objects": 3, "bytes": 300},
        "up": {"objects": 2, "bytes": 20},
        "files": {"written": 2, "deleted": 1},
        "input_ref": "c0ffee",
        "output_ref": "beef",
        "staging_branch": execution.staging_branch,
    }
    assert line["message"] == (
        "clean_ref COMPLETED after 4.000s; download=1.500s body=2.000s stage=0.500s; "
        "down=3 objects/300 bytes up=2 objects/20 bytes; files=2 written/1 deleted; "
        "output_ref=beef"
    )


def test_a_failed_attempt_says_where_and_why(scene: Scene) -> None:
    execution = an_execution()
    told = scene.run(execution, (Phase.BODY, 1.0, 0, 0))
    told.end(Failed(reason="no rows", phase=Phase.BODY))

    (line,) = scene.lines.lines
    summary = line["summary"]
    assert isinstance(summary, dict)
    assert line["level"] == "WARNING"
    assert (summary["phase"], summary["reason"]) == ("body", "no rows")
    assert summary["files"] is None
    assert summary["staging_branch"] is None
    assert "FAILED in body after 1.000s" in str(line["message"])


def test_nothing_changed_means_no_staging_branch(scene: Scene) -> None:
    execution = an_execution()
    told = scene.run(execution, (Phase.STAGE, 0.1, 0, 0))
    told.end(Completed(output={"result": {}}), ChangeCount(written=0, deleted=0))

    summary = scene.lines.lines[0]["summary"]
    assert isinstance(summary, dict)
    assert summary["staging_branch"] is None


def test_a_death_while_staging_names_the_branch_that_may_be_left(scene: Scene) -> None:
    execution = an_execution()
    told = scene.run(execution, (Phase.BODY, 1.0, 0, 0))
    told.enter(Phase.STAGE)
    told.end(Failed(reason="died", phase=Phase.STAGE))

    summary = scene.lines.lines[0]["summary"]
    assert isinstance(summary, dict)
    assert summary["staging_branch"] == execution.staging_branch


def test_a_death_and_a_lost_lease_have_lines_too(scene: Scene) -> None:
    execution = an_execution()
    told = scene.run(execution, (Phase.DOWNLOAD, 1.0, 0, 0))
    told.enter(Phase.BODY)
    told.die("killed by SIGKILL")
    told.end(None)
    scene.summaries.handle(ExecutorDied(attempt=None, phase=None, how="exit code 1"))

    died, ended, idle = scene.lines.lines
    assert died["message"] == "the executor died in phase body: killed by SIGKILL"
    assert died["task"] == "t-1"
    assert set(ATTEMPT_FIELDS) <= died.keys()
    summary = ended["summary"]
    assert isinstance(summary, dict)
    assert (summary["status"], summary["phase"]) == ("GIVEN_UP", "body")
    assert "task" not in idle


def test_only_ends_and_deaths_have_lines(scene: Scene) -> None:
    told = scene.run(an_execution(), (Phase.DOWNLOAD, 1.0, 3, 300))
    told.say("half", 0.5)
    told.miss_heartbeat("no answer")

    assert scene.lines.lines == []


def test_the_post_check_of_a_direct_attempt_comes_after_its_stage(scene: Scene) -> None:
    execution = an_execution()
    told = scene.run(execution, (Phase.STAGE, 1.0, 0, 0), (Phase.POST_CHECK, 2.0, 0, 0))
    told.end(Failed(reason="no", phase=Phase.POST_CHECK), ChangeCount(written=1, deleted=0))

    summary = scene.lines.lines[0]["summary"]
    assert isinstance(summary, dict)
    assert summary["phases"] == {"stage": 1.0, "post-check": 2.0}
    assert summary["phase"] == "post-check"
    assert summary["staging_branch"] == execution.staging_branch

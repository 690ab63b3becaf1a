"""One line for each attempt, with what it cost, whatever became of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from perago.domain.changes import ChangeCount
from perago.domain.execution import Execution
from perago.domain.outcome import Completed, Failed, Phase
from perago.runtime.attempt_summary import AttemptSummaries
from perago.runtime.log_context import ATTEMPT_FIELDS
from perago.runtime.log_lines import JsonLines
from perago.testing import FakeClock
from tests.unit.runtime.executions import an_execution


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
        self.summaries = AttemptSummaries(self.clock)
        self.lines = Lines()

    def run(self, execution: Execution, *phases: tuple[Phase, float, int, int]) -> None:
        self.summaries.execution_began(execution)
        for phase, seconds, objects, size in phases:
            self.summaries.phase_started(execution.attempt, phase)
            self.clock.advance(seconds)
            if objects:
                self.summaries.transferred(execution.attempt, objects, size)
            self.summaries.phase_ended(execution.attempt, phase, seconds)


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
    scene.run(
        execution,
        (Phase.DOWNLOAD, 1.5, 3, 300),
        (Phase.BODY, 2.0, 0, 0),
        (Phase.STAGE, 0.5, 2, 20),
    )
    scene.summaries.changes_found(execution.attempt, ChangeCount(written=2, deleted=1))
    output = Completed(output={"workspace": {"ref": "beef"}, "result": {}})
    scene.summaries.attempt_ended(execution.attempt, output)

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
    scene.run(execution, (Phase.BODY, 1.0, 0, 0))
    scene.summaries.attempt_ended(execution.attempt, Failed(reason="no rows", phase=Phase.BODY))

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
    scene.run(execution, (Phase.STAGE, 0.1, 0, 0))
    scene.summaries.changes_found(execution.attempt, ChangeCount(written=0, deleted=0))
    scene.summaries.attempt_ended(execution.attempt, Completed(output={"result": {}}))

    summary = scene.lines.lines[0]["summary"]
    assert isinstance(summary, dict)
    assert summary["staging_branch"] is None


def test_a_death_while_staging_names_the_branch_that_may_be_left(scene: Scene) -> None:
    execution = an_execution()
    scene.run(execution, (Phase.BODY, 1.0, 0, 0))
    scene.summaries.phase_started(execution.attempt, Phase.STAGE)
    scene.summaries.attempt_ended(execution.attempt, Failed(reason="died", phase=Phase.STAGE))

    summary = scene.lines.lines[0]["summary"]
    assert isinstance(summary, dict)
    assert summary["staging_branch"] == execution.staging_branch


def test_a_death_and_a_lost_lease_have_lines_too(scene: Scene) -> None:
    execution = an_execution()
    scene.run(execution, (Phase.DOWNLOAD, 1.0, 0, 0))
    scene.summaries.phase_started(execution.attempt, Phase.BODY)
    scene.summaries.executor_died(execution.attempt, "killed by SIGKILL")
    scene.summaries.attempt_ended(execution.attempt, None)
    scene.summaries.executor_died(None, "exit code 1")

    died, ended, idle = scene.lines.lines
    assert died["message"] == "the executor died in phase body: killed by SIGKILL"
    assert died["task"] == "t-1"
    summary = ended["summary"]
    assert isinstance(summary, dict)
    assert (summary["status"], summary["phase"]) == ("GIVEN_UP", "body")
    assert "task" not in idle


def test_what_did_not_begin_here_is_not_counted(scene: Scene) -> None:
    attempt = an_execution().attempt
    scene.summaries.phase_started(attempt, Phase.BODY)
    scene.summaries.transferred(attempt, 1, 1)
    scene.summaries.phase_ended(attempt, Phase.BODY, 1.0)
    scene.summaries.attempt_ended(attempt, None)

    assert scene.lines.lines == []

"""What is told of an attempt's phases, in which order, and what a silent one is seen to do."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId, TaskId, WorkerId, WorkflowId
from perago.domain.outcome import Completed, Outcome, Phase
from perago.domain.spark_progress import SparkProgress, SparkStage
from perago.domain.workflow import PolledTask
from perago.runtime.deaths import DeathRecord
from perago.runtime.events import IgnoredEvents
from perago.runtime.executor import ExecutorKit
from perago.runtime.hearing import Hearing
from perago.runtime.intake import Intake
from perago.runtime.leases import start_lease
from perago.runtime.messages import AttemptEnded, RunAttempt, hear_supervisor
from perago.runtime.options import SupervisorOptions
from perago.runtime.pipe_observer import PipeObserver
from perago.runtime.report_queue import ReportQueue
from perago.runtime.shared_lease import LEASE_LOST, AttemptCell
from perago.runtime.slot import Assignment, Slot
from perago.runtime.task_log import TaskLog
from perago.testing import FakeClock, MemoryOrchestrator
from tests.unit.runtime.inline_calls import InlineCalls

DONE = AttemptEnded(outcome=Completed(output={}), is_reported=True)


class Told(IgnoredEvents):
    """Remembers phases and ends."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def phase_started(self, attempt: Attempt, phase: Phase) -> None:
        self.words.append(f"{phase} begins")

    def phase_ended(self, attempt: Attempt, phase: Phase, seconds: float) -> None:
        self.words.append(f"{phase} ends")

    def spark_progressed(self, attempt: Attempt, progress: SparkProgress, line: str | None) -> None:
        self.words.append(f"Spark is at {progress.jobs}: {line}")

    def attempt_ended(self, attempt: Attempt, outcome: Outcome | None) -> None:
        self.words.append("over")


class RecordingLog(TaskLog):
    """The log of the one task."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, attempt: Attempt, text: str) -> None:
        assert attempt == ATTEMPT
        self.lines.append(text)


class Scene:
    """A slot whose executor is this process, at the other end of a real pipe."""

    def __init__(self, *, is_brief: bool) -> None:
        clock, self.told, self.log = FakeClock(), Told(), RecordingLog()
        orchestrator, calls = MemoryOrchestrator(clock), InlineCalls()
        options = SupervisorOptions(
            worker_id=WorkerId("me"),
            executors=1,
            heartbeats={"task": 5.0},
            merge_timeouts={"task": 60.0},
            logs_directory=Path("unused"),
        )
        context = multiprocessing.get_context("spawn")
        self.slot = Slot(0, context, no_kit, Path("unused"))
        self.slot.cell = AttemptCell(LEASE_LOST)
        self.slot.connection, theirs = context.Pipe()
        reports = ReportQueue(orchestrator, clock, calls)
        self.hearing = Hearing(
            clock,
            events=self.told,
            intake=Intake(
                [self.slot],
                options,
                orchestrator=orchestrator,
                clock=clock,
                calls=calls,
                events=self.told,
                is_over=reports.holds,
            ),
            reports=reports,
            task_log=self.log,
            deaths=DeathRecord(options),
            ask_soon=lambda: None,
        )
        self.assignment = Assignment(
            polled=PolledTask(attempt=ATTEMPT, input={}, lease_seconds=60.0),
            execution_id=ExecutionId("0" * 32),
            lease=start_lease(
                polled_at=0.0, lease_seconds=60.0, heartbeat_seconds=5.0, timeout_seconds=None
            ),
            is_brief=is_brief,
        )
        self.slot.assign(self.assignment, Path("unused"))
        message = hear_supervisor(theirs)
        assert isinstance(message, RunAttempt)
        self.executor = PipeObserver(theirs, self.slot.cell)
        self.executor.tells_body_later = message.is_brief

    def heard(self) -> list[str]:
        """What the supervisor tells after it took what there is."""
        self.hearing.take(self.slot)
        words, self.told.words = self.told.words, []
        return words

    def seen(self) -> list[str]:
        """What it tells after a look at the slot."""
        self.hearing.look(self.slot)
        return self.heard()

    def enter_body(self) -> None:
        self.executor.phase_started(Phase.VALIDATE)
        self.executor.phase_ended(Phase.VALIDATE, 0.001)
        self.executor.phase_started(Phase.BODY)


ATTEMPT = Attempt(
    workflow_id=WorkflowId("w"), task_id=TaskId("t"), task_name="task", reference_name="ref"
)


def no_kit(_number: int) -> ExecutorKit:
    raise AssertionError("no executor is started here")


@pytest.fixture
def brief() -> Scene:
    return Scene(is_brief=True)


def test_a_body_is_told_of_as_it_begins() -> None:
    scene = Scene(is_brief=False)
    scene.enter_body()

    assert scene.heard() == ["validate begins", "validate ends", "body begins"]
    assert scene.assignment.phase is Phase.BODY


def test_how_far_spark_is_is_told_and_lines_of_it_are_logged() -> None:
    scene = Scene(is_brief=False)
    scene.enter_body()
    scene.heard()
    stage = SparkStage(name="count", tasks=2, tasks_done=1)

    scene.executor.spark_progressed(SparkProgress(jobs=1, active=(stage,)), None)
    scene.executor.spark_progressed(SparkProgress(jobs=2), "Spark: 2 jobs")

    assert scene.heard() == ["Spark is at 1: None", "Spark is at 2: Spark: 2 jobs"]
    assert scene.log.lines == ["Spark: 2 jobs"]


def test_a_brief_attempt_is_told_of_when_it_is_over(brief: Scene) -> None:
    brief.enter_body()
    assert brief.heard() == []

    brief.executor.phase_ended(Phase.BODY, 0.001)
    brief.executor.send(DONE)

    assert brief.heard() == [
        "validate begins",
        "validate ends",
        "body begins",
        "body ends",
        "over",
    ]


def test_one_that_is_not_brief_after_all_is_seen_where_it_is(brief: Scene) -> None:
    brief.enter_body()

    assert brief.seen() == ["body begins"]
    assert brief.seen() == []
    brief.executor.phase_ended(Phase.BODY, 60.0)
    brief.executor.send(DONE)

    assert brief.heard() == ["body ends", "over"]


def test_a_later_phase_is_left_to_the_executor_to_tell(brief: Scene) -> None:
    brief.enter_body()
    brief.seen()
    assert brief.slot.cell is not None

    brief.slot.cell.enter(Phase.PUBLISH)

    assert brief.seen() == []


def test_where_a_dead_executor_was_is_known_though_it_did_not_say(brief: Scene) -> None:
    brief.enter_body()

    brief.hearing.take_last(brief.slot)

    assert brief.assignment.phase is Phase.BODY
    assert brief.told.words == ["body begins"]


def test_one_that_is_not_brief_after_all_keeps_no_room(brief: Scene) -> None:
    brief.slot.is_ready = True
    brief.enter_body()
    assert brief.slot.is_finishing

    brief.seen()

    assert not brief.slot.is_finishing


def test_the_last_words_of_a_dead_executor_make_no_room_in_it(brief: Scene) -> None:
    brief.slot.is_ready = True
    brief.executor.send(DONE)

    brief.hearing.take_last(brief.slot)

    assert brief.slot.assignment is None
    assert not brief.slot.is_idle

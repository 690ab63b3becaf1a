"""Reports for executors that no longer can: held until due, tried again, given up in the end."""

from __future__ import annotations

from perago.domain.attempt import Attempt
from perago.domain.errors import (
    NotFoundInOrchestratorError,
    OrchestratorError,
    OrchestratorUnavailableError,
)
from perago.domain.ids import TaskId, WorkflowId
from perago.domain.outcome import Failed, Outcome, Phase
from perago.runtime.report_queue import ReportQueue
from perago.testing import FakeClock, MemoryOrchestrator
from tests.unit.runtime.inline_calls import HeldCalls, InlineCalls

ATTEMPT = Attempt(
    workflow_id=WorkflowId("w"), task_id=TaskId("t"), task_name="task", reference_name="ref"
)
FAILED = Failed(reason="died", phase=Phase.BODY)


class FlakyOrchestrator(MemoryOrchestrator):
    """Answers only after so many silences, or other errors."""

    def __init__(self, clock: FakeClock, silences: int) -> None:
        super().__init__(clock)
        self.silences = silences
        self.error: OrchestratorError = OrchestratorUnavailableError("no answer")
        self.heard: list[Outcome] = []

    def report(self, attempt: Attempt, outcome: Outcome) -> None:
        if self.silences > 0:
            self.silences -= 1
            raise self.error
        self.heard.append(outcome)


def queue(silences: int = 0) -> tuple[ReportQueue, FlakyOrchestrator, FakeClock]:
    clock = FakeClock()
    orchestrator = FlakyOrchestrator(clock, silences)
    return ReportQueue(orchestrator, clock, InlineCalls()), orchestrator, clock


def test_a_report_is_sent_once_and_at_once() -> None:
    reports, orchestrator, _ = queue()
    reports.add(ATTEMPT, FAILED)

    reports.send_due()
    reports.send_due()
    assert orchestrator.heard == [FAILED]
    assert reports.is_empty


def test_a_delayed_report_waits() -> None:
    reports, orchestrator, clock = queue()
    reports.add(ATTEMPT, FAILED, delay=60)

    reports.send_due()
    assert orchestrator.heard == []
    assert not reports.is_empty
    clock.advance(60)
    reports.send_due()
    assert orchestrator.heard == [FAILED]


def test_silence_is_answered_with_patience() -> None:
    reports, orchestrator, clock = queue(silences=5)
    reports.add(ATTEMPT, FAILED)

    for _ in range(40):
        reports.send_due()
        clock.advance(1)

    assert orchestrator.heard == [FAILED]


def test_what_is_not_heard_is_counted_and_known_by_its_task() -> None:
    reports, _, clock = queue(silences=1)
    reports.add(ATTEMPT, FAILED, delay=60)
    assert (reports.unheard, reports.holds(ATTEMPT.task_id)) == (0, True)

    clock.advance(60)
    reports.send_due()
    assert (reports.unheard, reports.holds(ATTEMPT.task_id)) == (1, True)
    assert not reports.holds(TaskId("another"))

    clock.advance(60)
    reports.send_due()
    assert (reports.unheard, reports.holds(ATTEMPT.task_id)) == (0, False)


def test_a_report_that_is_refused_is_tried_again_and_keeps_nobody_from_polling() -> None:
    reports, orchestrator, clock = queue(silences=1)
    orchestrator.error = OrchestratorError("not with this key")
    reports.add(ATTEMPT, FAILED)

    reports.send_due()
    assert (reports.unheard, reports.is_empty) == (0, False)
    clock.advance(60)
    reports.send_due()
    assert (orchestrator.heard, reports.is_empty) == ([FAILED], True)


def test_of_a_task_that_was_removed_nobody_is_told() -> None:
    reports, orchestrator, _ = queue(silences=1)
    orchestrator.error = NotFoundInOrchestratorError("there is no such task")
    reports.add(ATTEMPT, FAILED)

    reports.send_due()
    assert reports.is_empty


def test_lasting_silence_is_left_to_the_lease() -> None:
    reports, orchestrator, clock = queue(silences=10_000)
    reports.add(ATTEMPT, FAILED)

    for _ in range(1000):
        reports.send_due()
        clock.advance(1)

    assert reports.is_empty
    assert orchestrator.heard == []


def test_a_report_that_is_under_way_is_not_done_and_not_sent_twice() -> None:
    clock = FakeClock()
    orchestrator, calls = FlakyOrchestrator(clock, 0), HeldCalls()
    sent: list[bool] = []
    reports = ReportQueue(orchestrator, clock, calls, lambda: sent.append(True))
    reports.add(ATTEMPT, FAILED)
    reports.send_due()
    reports.send_due()
    assert len(calls.held) == 1
    before = reports.is_empty
    calls.answer()
    assert (before, reports.is_empty) == (False, True)
    assert sent == [True]

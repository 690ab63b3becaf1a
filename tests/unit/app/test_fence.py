"""The attempt fence: no answer, a lost lease or another delivery all end in no publication."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from perago.app.fence import AttemptFence
from perago.domain.attempt import Attempt, AttemptSnapshot, AttemptStatus
from perago.domain.errors import LeaseLostError, OrchestratorError, StaleAttemptError
from perago.domain.ids import TaskId, WorkflowId
from perago.testing import FakeClock, MemoryOrchestrator

ATTEMPT = Attempt(
    workflow_id=WorkflowId("w"),
    task_id=TaskId("t"),
    task_name="clean",
    reference_name="clean",
    poll_count=1,
)
CURRENT = AttemptSnapshot(
    status=AttemptStatus.IN_PROGRESS,
    workflow_id=ATTEMPT.workflow_id,
    task_id=ATTEMPT.task_id,
    retry_count=ATTEMPT.retry_count,
    poll_count=1,
)


@dataclass(frozen=True)
class HeldLease:
    deadline: float = 100.0
    is_lost: bool = False
    poll_count: int | None = None


class Answering(MemoryOrchestrator):
    """It gives one answer to every question, or fails."""

    def __init__(self, answer: AttemptSnapshot | OrchestratorError) -> None:
        super().__init__(FakeClock())
        self.answer = answer
        self.asked = 0

    def snapshot(self, task_id: TaskId) -> AttemptSnapshot:
        self.asked += 1
        if isinstance(self.answer, OrchestratorError):
            raise self.answer
        return self.answer


def fence(
    orchestrator: Answering, lease: HeldLease, *, merge_seconds: float = 10.0
) -> AttemptFence:
    return AttemptFence(
        attempt=ATTEMPT,
        orchestrator=orchestrator,
        lease=lease,
        clock=FakeClock(),
        merge_timeout_seconds=merge_seconds,
    )


def test_a_current_attempt_with_time_left_may_act() -> None:
    orchestrator = Answering(CURRENT)
    fence(orchestrator, HeldLease()).assert_may_act()
    assert orchestrator.asked == 1, "it is asked afresh, every time"


def test_without_an_answer_the_attempt_counts_as_stale() -> None:
    silent = Answering(OrchestratorError("it does not answer"))
    with pytest.raises(StaleAttemptError, match="cannot tell whether task t is current") as raised:
        fence(silent, HeldLease()).assert_current()
    assert "it does not answer" in raised.value.message


def test_a_lost_lease_is_not_asked_about() -> None:
    orchestrator = Answering(CURRENT)
    with pytest.raises(LeaseLostError, match="the lease of task t is lost"):
        fence(orchestrator, HeldLease(is_lost=True)).assert_current()
    assert orchestrator.asked == 0


def test_the_delivery_that_runs_is_compared_not_the_one_that_was_polled() -> None:
    again = Answering(replace(CURRENT, poll_count=2))
    fence(again, HeldLease(poll_count=2)).assert_current()
    with pytest.raises(StaleAttemptError, match="delivered again"):
        fence(again, HeldLease()).assert_current()


def test_too_little_time_for_the_merge_begins_none() -> None:
    orchestrator = Answering(CURRENT)
    with pytest.raises(LeaseLostError, match="does not begin to publish"):
        fence(orchestrator, HeldLease(), merge_seconds=100.5).assert_may_act()

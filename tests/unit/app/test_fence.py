"""The attempt fence: no answer, a lost lease or another delivery all end in no publication."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from perago.app.fence import AttemptFence
from perago.domain.attempt import Attempt, AttemptSnapshot, AttemptStatus
from perago.domain.errors import (
    LeaseLostError,
    OrchestratorError,
    OrchestratorUnavailableError,
    StaleAttemptError,
)
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


@dataclass
class RenewedLease:
    """A lease whose heartbeats get through from some moment on."""

    clock: FakeClock
    deadline: float
    renewed_at: float
    renewed_by: float
    is_lost: bool = False
    poll_count: int | None = None

    def renew_if_due(self) -> None:
        if self.clock.elapsed() >= self.renewed_at:
            self.deadline = self.renewed_at + self.renewed_by


class SilentUntil(Answering):
    """It does not answer before some moment; every question may let a heartbeat through."""

    def __init__(self, clock: FakeClock, answers_at: float, lease: RenewedLease) -> None:
        super().__init__(CURRENT)
        self.clock = clock
        self.answers_at = answers_at
        self.lease = lease

    def snapshot(self, task_id: TaskId) -> AttemptSnapshot:
        self.lease.renew_if_due()
        if self.clock.elapsed() < self.answers_at:
            self.asked += 1
            raise OrchestratorUnavailableError("nobody answers")
        return super().snapshot(task_id)


class HeartbeatingClock(FakeClock):
    """A clock whose sleepers are overtaken by the supervisor's heartbeats."""

    lease: RenewedLease | None = None

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.lease is not None:
            self.lease.renew_if_due()


def outage(
    *, seconds: float, lease_seconds: float = 90.0, renewed_after: float | None = None
) -> tuple[AttemptFence, SilentUntil]:
    """A server that is away from now on; the lease began now."""
    clock = HeartbeatingClock()
    now = clock.elapsed()
    lease = RenewedLease(
        clock=clock,
        deadline=now + lease_seconds,
        renewed_at=now + (seconds if renewed_after is None else renewed_after),
        renewed_by=lease_seconds,
    )
    clock.lease = lease
    orchestrator = SilentUntil(clock, now + seconds, lease)
    asked = AttemptFence(
        attempt=ATTEMPT,
        orchestrator=orchestrator,
        lease=lease,
        clock=clock,
        merge_timeout_seconds=60.0,
    )
    return asked, orchestrator


@pytest.mark.parametrize("seconds", [0.4, 10.0, 30.0, 89.0])
def test_an_outage_that_is_shorter_than_the_lease_is_waited_for(seconds: float) -> None:
    asked, orchestrator = outage(seconds=seconds)
    asked.assert_current()
    assert orchestrator.asked > 1


@pytest.mark.parametrize("seconds", [10.0, 30.0, 45.0])
def test_after_an_outage_the_last_question_waits_for_a_heartbeat_to_get_through(
    seconds: float,
) -> None:
    """45 of 90 seconds leave no time for a merge of 60, until the lease is renewed."""
    asked, _ = outage(seconds=seconds, renewed_after=seconds + 5.0)
    asked.assert_may_act()
    assert asked.lease.deadline - asked.clock.elapsed() > asked.merge_timeout_seconds


def test_after_an_outage_without_a_heartbeat_nothing_is_begun() -> None:
    asked, _ = outage(seconds=45.0, renewed_after=1000.0)
    with pytest.raises(LeaseLostError, match="does not begin to publish"):
        asked.assert_may_act()


def test_an_outage_that_outlasts_the_lease_fails_closed() -> None:
    asked, orchestrator = outage(seconds=200.0)
    with pytest.raises(StaleAttemptError, match="nobody answers"):
        asked.assert_current()
    assert asked.clock.elapsed() < asked.lease.deadline
    assert orchestrator.asked > 100, "it is asked again all the while"


def test_a_lease_that_is_lost_while_it_is_waited_for_ends_the_wait() -> None:
    asked, orchestrator = outage(seconds=200.0)

    class Losing(HeartbeatingClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            orchestrator.lease.is_lost = True

    with pytest.raises(LeaseLostError, match="is lost"):
        replace(asked, clock=Losing()).assert_current()
    assert orchestrator.asked == 1

"""Asks whether this attempt may still act. Fails closed: no answer is a no."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perago.domain.attempt import Attempt, assert_current_attempt_snapshot
from perago.domain.budget import explain_late_publish
from perago.domain.errors import LeaseLostError, OrchestratorError, StaleAttemptError
from perago.ports import Clock, Lease, Orchestrator


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFence:
    """The attempt fence of one attempt, with its lease."""

    attempt: Attempt
    orchestrator: Orchestrator
    lease: Lease
    clock: Clock
    merge_timeout_seconds: float

    def assert_current(self) -> None:
        """Raise unless the orchestrator, asked afresh, still counts on this very attempt."""
        if self.lease.is_lost:
            raise LeaseLostError(
                f"the lease of task {self.attempt.task_id} is lost; it publishes nothing",
                hint="nothing to do: the orchestrator schedules another attempt",
            )
        try:
            snapshot = self.orchestrator.snapshot(self.attempt.task_id)
        except OrchestratorError as error:
            raise StaleAttemptError(
                f"cannot tell whether task {self.attempt.task_id} is current: {error.message}",
                hint="the attempt fails closed; look at the orchestrator's health",
            ) from error
        assert_current_attempt_snapshot(self._delivered_attempt(), snapshot)

    def _delivered_attempt(self) -> Attempt:
        delivery = self.lease.poll_count
        return self.attempt if delivery is None else replace(self.attempt, poll_count=delivery)

    def assert_may_act(self) -> None:
        """The last question before the target is moved: current, and with time to finish."""
        self.assert_current()
        late = explain_late_publish(
            now=self.clock.elapsed(),
            lease_deadline=self.lease.deadline,
            merge_timeout_seconds=self.merge_timeout_seconds,
        )
        if late is not None:
            raise LeaseLostError(
                f"task {self.attempt.task_id} does not begin to publish: {late}",
                hint="raise the task's response time-out, or lower its merge time-out",
            )

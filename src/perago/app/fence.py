"""Asks whether this attempt may still act. Fails closed: no answer is a no, once the lease ends."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from perago.domain.attempt import Attempt, assert_current_attempt_snapshot
from perago.domain.budget import explain_late_publish
from perago.domain.errors import (
    LeaseLostError,
    OrchestratorError,
    OrchestratorUnavailableError,
    StaleAttemptError,
)
from perago.ports import Clock, Lease, Orchestrator

_log = logging.getLogger(__name__)

_ASK_AGAIN_SECONDS = 0.5
"""Between two questions while the orchestrator does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFence:
    """The attempt fence of one attempt, with its lease."""

    attempt: Attempt
    orchestrator: Orchestrator
    lease: Lease
    clock: Clock
    merge_timeout_seconds: float

    def assert_current(self) -> None:
        """Raise unless the orchestrator, asked afresh, still counts on this very attempt.

        While it does not answer it is asked again until the lease ends: a heartbeat that gets
        through renews the lease, and an outage that is shorter costs no retry.
        """
        self._ask_until_answered()

    def assert_may_act(self) -> None:
        """The last question before the target is moved: current, and with time to finish."""
        while self._ask_until_answered() and self._explain_late() is not None:
            if not self._wait_for_renewal():
                break
        self.assert_in_time()

    def assert_in_time(self) -> None:
        """Raise unless a publish call that begins now ends within the lease; asks nobody."""
        late = self._explain_late()
        if late is not None:
            raise LeaseLostError(
                f"task {self.attempt.task_id} does not begin to publish: {late}",
                hint="raise the task's response time-out, or lower its merge time-out",
            )

    def _explain_late(self) -> str | None:
        return explain_late_publish(
            now=self.clock.elapsed(),
            lease_deadline=self.lease.deadline,
            merge_timeout_seconds=self.merge_timeout_seconds,
        )

    def _ask_until_answered(self) -> bool:
        """Pass the fence; say whether the orchestrator had to be asked again."""
        was_silent = False
        while True:
            self._require_lease()
            try:
                snapshot = self.orchestrator.snapshot(self.attempt.task_id)
            except OrchestratorUnavailableError as error:
                if self.clock.elapsed() + _ASK_AGAIN_SECONDS >= self.lease.deadline:
                    raise self._unknown(error) from error
                if not was_silent:
                    _log.warning("asking again while the lease lasts: %s", error.message)
                was_silent = True
                self.clock.sleep(_ASK_AGAIN_SECONDS)
            except OrchestratorError as error:
                raise self._unknown(error) from error
            else:
                assert_current_attempt_snapshot(self._delivered_attempt(), snapshot)
                return was_silent

    def _wait_for_renewal(self) -> bool:
        """After an outage, wait until a heartbeat got through; say whether one did."""
        before = self.lease.deadline
        while self.clock.elapsed() < before:
            self._require_lease()
            if self.lease.deadline > before:
                return True
            self.clock.sleep(_ASK_AGAIN_SECONDS)
        return self.lease.deadline > before

    def _require_lease(self) -> None:
        if self.lease.is_lost:
            raise LeaseLostError(
                f"the lease of task {self.attempt.task_id} is lost; it publishes nothing",
                hint="nothing to do: the orchestrator schedules another attempt",
            )

    def _unknown(self, error: OrchestratorError) -> StaleAttemptError:
        return StaleAttemptError(
            f"cannot tell whether task {self.attempt.task_id} is current: {error.message}",
            hint="the attempt fails closed; look at the orchestrator's health",
        )

    def _delivered_attempt(self) -> Attempt:
        delivery = self.lease.poll_count
        return self.attempt if delivery is None else replace(self.attempt, poll_count=delivery)

"""What becomes of an attempt whose executor died."""

from __future__ import annotations

from dataclasses import dataclass

from perago.domain.attempt import Attempt, LogicalTask
from perago.domain.outcome import Failed, Phase, TerminalFailure, decide_executor_death
from perago.runtime.options import SupervisorOptions
from perago.runtime.slot import Assignment

_REMEMBERED = 1_000
"""Of so many logical tasks the deaths are counted; a worker runs for months."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastWord:
    """What to report for the dead, and after how many seconds."""

    outcome: Failed | TerminalFailure
    delay: float


class DeathRecord:
    """Counts the executors that each logical task killed here, and decides by it."""

    def __init__(self, options: SupervisorOptions) -> None:
        self._options = options
        self._deaths: dict[LogicalTask, int] = {}

    def settle(self, assignment: Assignment, how: str) -> LastWord | None:
        """Count a death; None where the attempt was given up or reported: it decides nothing."""
        if assignment.cancelled_at is not None or assignment.phase is Phase.CLEANUP:
            return None
        attempt = assignment.attempt
        deaths = self._deaths.pop(attempt.logical_task, 0) + 1
        self._deaths[attempt.logical_task] = deaths
        if len(self._deaths) > _REMEMBERED:
            del self._deaths[next(iter(self._deaths))]
        outcome = decide_executor_death(
            reference_name=attempt.reference_name,
            phase=assignment.phase,
            deaths=deaths,
            limit=self._options.death_limit,
            how=how,
        )
        return LastWord(outcome=outcome, delay=self.seconds_to_land(assignment))

    def forgive(self, attempt: Attempt) -> None:
        """One of its attempts came to an end by itself."""
        self._deaths.pop(attempt.logical_task, None)

    def may_land(self, assignment: Assignment) -> bool:
        """Whether a publish call of a dead executor may still be carried out."""
        return assignment.phase is Phase.PUBLISH and self._options.publish_may_outlive_executor

    def seconds_to_land(self, assignment: Assignment) -> float:
        """How long to wait for such a call."""
        if not self.may_land(assignment):
            return 0.0
        return self._options.merge_timeouts[assignment.attempt.task_name]

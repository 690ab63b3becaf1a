"""Reports: how attempts ended, kept until the orchestrator has heard it. The one owner of that.

Invariants: each try reads first whether the delivery is still the current one (the port does), so a
report that comes late harms nobody; a report is not sent while a heartbeat of its attempt is under
way, which could undo it; and an outcome is kept until it was heard, found to be another delivery's
business, or is so old that the orchestrator's own time-outs have long decided.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from perago.domain.attempt import Attempt
from perago.domain.errors import (
    NotFoundInOrchestratorError,
    OrchestratorUnavailableError,
    PeragoError,
)
from perago.domain.execution import Execution
from perago.domain.ids import TaskId
from perago.domain.outcome import Outcome, Phase
from perago.domain.workflow import PolledTask
from perago.runtime.log_context import about
from perago.runtime.slot import Assignment

_log = logging.getLogger(__name__)

_TRY_AGAIN_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 15.0
_TRIES_PER_LEASE = 12
GIVE_UP_SECONDS = 600.0
"""After so long, the orchestrator's own time-out is left to notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """An executor died with an attempt. What that means depends on how often
    it happened before, which the orchestrator's record of the attempt's step tells.
    """

    phase: Phase
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTaken:
    """The orchestrator's answer: what was told, and why it was not taken, if it was not."""

    outcome: Outcome
    stale: str | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Report:
    """One outcome on its way. Identity tells reports apart."""

    attempt: Attempt
    added_at: float
    due: float
    give_up_at: float
    """When the orchestrator's own time-outs have long decided; runs from when it was to be sent."""
    execution: Execution | None = None
    polled: PolledTask | None = None
    outcome: Outcome | None = None
    """None while the earlier deaths of its step are still to be counted."""
    death: Death | None = None
    after_beat_of: Assignment | None = None
    tries: int = 0
    is_refused: bool = False
    is_under_way: bool = False
    sent_for: Attempt | None = None
    """The delivery that the last try was for."""

    @property
    def longest_pause(self) -> float:
        """So short that an outage which ends within the lease is seen to end within it, too."""
        if self.polled is None:
            return _LONGEST_PAUSE_SECONDS
        share = self.polled.lease_seconds / _TRIES_PER_LEASE
        return min(max(share, _TRY_AGAIN_SECONDS), _LONGEST_PAUSE_SECONDS)

    @property
    def is_held(self) -> bool:
        """Whether a heartbeat that is under way must be answered first."""
        return self.after_beat_of is not None and self.after_beat_of.beat_is_under_way


class Reports:
    """Holds each report until it is due, and tries again while the orchestrator is silent."""

    def __init__(self) -> None:
        self._all: list[Report] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to report."""
        return not self._all

    @property
    def unheard(self) -> int:
        """How many were sent and not heard yet; not those that were heard and refused."""
        return sum(
            report.is_under_way or (report.tries > 0 and not report.is_refused)
            for report in self._all
        )

    @property
    def dues(self) -> list[float]:
        """When each waiting report is due, on `Clock.elapsed`."""
        return [report.due for report in self._all if not (report.is_under_way or report.is_held)]

    def find_of(self, assignment: Assignment) -> Report | None:
        """The report of this very execution, if its end is still to be heard."""
        return next((one for one in self._all if one.after_beat_of is assignment), None)

    def find(self, task_id: TaskId) -> Report | None:
        """The report about a task, if its end is still to be heard."""
        return next((one for one in self._all if one.attempt.task_id == task_id), None)

    def add(
        self,
        attempt: Attempt,
        *,
        now: float,
        assignment: Assignment | None = None,
        polled: PolledTask | None = None,
        outcome: Outcome | None = None,
        death: Death | None = None,
        delay: float = 0.0,
    ) -> None:
        """Report an outcome after so many seconds, or a death once the earlier ones are counted."""
        self._all.append(
            Report(
                attempt=attempt,
                outcome=outcome,
                death=death,
                execution=assignment.execution if assignment is not None else None,
                polled=assignment.polled if assignment is not None else polled,
                after_beat_of=assignment,
                added_at=now,
                due=now + delay,
                give_up_at=now + delay + GIVE_UP_SECONDS,
            )
        )

    def adopt(self, report: Report, again: PolledTask) -> None:
        """The task was delivered again while its end is reported: report for that delivery."""
        report.attempt = again.attempt
        report.polled = again

    def was_adopted(self, report: Report) -> bool:
        """Whether its task was delivered again since it was sent."""
        return report.sent_for != report.attempt

    def send_again(self, report: Report, now: float) -> None:
        """Send it for the delivery that it is for by now."""
        report.is_under_way, report.due = False, now

    def forget_delayed(self, now: float) -> None:
        """Leave to the lease what nobody is here any more to report later. What is due, and waits
        for the answer to a heartbeat only, stays.
        """
        self._all = [report for report in self._all if report.tries > 0 or report.due <= now]

    def take_due(self, now: float) -> list[Report]:
        """The reports to send now."""
        due = [
            report
            for report in self._all
            if report.due <= now and not report.is_under_way and not report.is_held
        ]
        for report in due:
            report.is_under_way, report.sent_for = True, report.attempt
        return due

    def decide(self, report: Report, outcome: Outcome, *, due: float) -> None:
        """The deaths are counted: from `due` on the outcome is to be reported."""
        report.is_under_way, report.tries = False, 0
        report.outcome, report.due, report.give_up_at = outcome, due, due + GIVE_UP_SECONDS

    def close(self, report: Report) -> None:
        """Nothing is left to say."""
        self._all.remove(report)

    def try_again(self, report: Report, error: PeragoError, now: float) -> bool:
        """Keep a report whose try failed, for another one; say whether it is kept."""
        with about(report.execution or report.attempt):
            _log.warning("cannot report %s: %s", report.attempt.reference_name, error.message)
        report.is_under_way = False
        pause = min(_TRY_AGAIN_SECONDS * 2.0 ** min(report.tries, 10), report.longest_pause)
        is_gone = isinstance(error, NotFoundInOrchestratorError)  # there is nobody to tell
        if is_gone or now + pause >= report.give_up_at:
            self._all.remove(report)
            return False
        report.due, report.tries = now + pause, report.tries + 1
        report.is_refused = not isinstance(error, OrchestratorUnavailableError)
        return True

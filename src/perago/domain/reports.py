"""Whether an ending may be reported: only by the delivery that the orchestrator counts on.

Invariant: a report that this module refuses could have ended somebody else's healthy attempt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from perago.domain.attempt import Attempt, AttemptSnapshot, AttemptStatus, decide_staleness
from perago.domain.outcome import Completed, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReport:
    """The delivery is the current one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyReported:
    """The orchestrator has this ending of this delivery: the answer to it was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleReport:
    """The task id is over, or in another delivery's hands."""

    reason: str


ReportDecision = SendReport | AlreadyReported | StaleReport


def decide_report(attempt: Attempt, snapshot: AttemptSnapshot, outcome: Outcome) -> ReportDecision:
    """What to do with a report, given what the orchestrator says of the task id now.

    A failure is also sent for an attempt whose place a later one took: it ends that attempt alone,
    and a Conductor run in which it stays open never ends.
    """
    reason = decide_staleness(attempt, snapshot)
    if reason is None:
        return SendReport()
    unended = replace(snapshot, status=AttemptStatus.IN_PROGRESS, is_retried=False)
    if decide_staleness(attempt, unended) is not None:
        return StaleReport(reason=reason)
    if _is_recorded(snapshot.status, outcome):
        return AlreadyReported()
    is_open = snapshot.status is AttemptStatus.IN_PROGRESS
    if is_open and snapshot.is_retried and not isinstance(outcome, Completed):
        return SendReport()
    return StaleReport(reason=reason)


def _is_recorded(status: AttemptStatus, outcome: Outcome) -> bool:
    # The failure of an optional step is kept under a name of its own.
    passed_over = status is AttemptStatus.COMPLETED_WITH_ERRORS
    return status is outcome.status or (passed_over and not isinstance(outcome, Completed))

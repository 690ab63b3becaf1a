"""How attempts ended that no executor reports: it died, could not, or has its next one already.

No heartbeat is sent for what waits here. A report is the same request as a heartbeat: whenever the
orchestrator takes the one it takes the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from perago.domain.attempt import Attempt
from perago.domain.errors import (
    NotFoundInOrchestratorError,
    OrchestratorUnavailableError,
    PeragoError,
)
from perago.domain.ids import TaskId
from perago.domain.outcome import Outcome
from perago.ports import Clock, Orchestrator
from perago.runtime.calls import Calls
from perago.runtime.log_context import about

_log = logging.getLogger(__name__)

_TRY_AGAIN_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 15.0
_GIVE_UP_SECONDS = 600.0
"""After so long, the orchestrator's own time-out is left to notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    attempt: Attempt
    outcome: Outcome
    due: float
    give_up: float
    tries: int = 0
    is_refused: bool = False


class ReportQueue:
    """Holds each report until it is due, and tries again while the orchestrator is silent."""

    def __init__(
        self,
        orchestrator: Orchestrator,
        clock: Clock,
        calls: Calls,
        on_sent: Callable[[], None] = lambda: None,
    ) -> None:
        self._orchestrator = orchestrator
        self._clock = clock
        self._calls = calls
        self._on_sent = on_sent
        self._waiting: list[_Report] = []
        self._under_way: list[_Report] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to report."""
        return not self._waiting and not self._under_way

    @property
    def unheard(self) -> int:
        """How many reports were sent and not heard yet; not those that were heard and refused."""
        silent = sum(report.tries > 0 and not report.is_refused for report in self._waiting)
        return len(self._under_way) + silent

    def holds(self, task_id: TaskId) -> bool:
        """Whether the end of this task is still to be reported, or heard."""
        return any(
            report.attempt.task_id == task_id for report in (*self._under_way, *self._waiting)
        )

    @property
    def dues(self) -> list[float]:
        """When each waiting report is due, on `Clock.elapsed`."""
        return [report.due for report in self._waiting]

    def add(self, attempt: Attempt, outcome: Outcome, *, delay: float = 0.0) -> None:
        """Report this after so many seconds."""
        due = self._clock.elapsed() + delay
        self._waiting.append(
            _Report(attempt=attempt, outcome=outcome, due=due, give_up=due + _GIVE_UP_SECONDS)
        )

    def forget_delayed(self) -> None:
        """Leave what is not due yet to the lease: nobody is here any more to report it later."""
        self._waiting = [report for report in self._waiting if report.tries]

    def send_due(self) -> None:
        """Send what is due."""
        now = self._clock.elapsed()
        due = [report for report in self._waiting if report.due <= now]
        self._waiting = [report for report in self._waiting if report.due > now]
        for report in due:
            self._send(report)

    def _send(self, report: _Report) -> None:
        def send() -> None:
            self._orchestrator.report(report.attempt, report.outcome)

        def take(answer: PeragoError | None) -> None:
            self._under_way.remove(report)
            if isinstance(answer, PeragoError):
                self._try_again(report, answer)
            else:
                self._on_sent()

        self._under_way.append(report)
        self._calls.submit(send, take)

    def _try_again(self, report: _Report, error: PeragoError) -> None:
        with about(report.attempt):
            _log.warning("cannot report %s: %s", report.attempt.reference_name, error.message)
        if isinstance(error, NotFoundInOrchestratorError):
            return  # it was removed: there is nobody to tell
        now = self._clock.elapsed()
        pause = min(_TRY_AGAIN_SECONDS * 2.0**report.tries, _LONGEST_PAUSE_SECONDS)
        if now + pause < report.give_up:
            is_refused = not isinstance(error, OrchestratorUnavailableError)
            again = replace(report, due=now + pause, tries=report.tries + 1, is_refused=is_refused)
            self._waiting.append(again)

"""Reports that the supervisor makes for executors that no longer can."""

from __future__ import annotations

import logging

from perago.domain.attempt import Attempt
from perago.domain.errors import PeragoError
from perago.domain.outcome import Outcome
from perago.ports import Clock, Orchestrator

_log = logging.getLogger(__name__)

_TRY_AGAIN_SECONDS = 1.0
_MOST_TRIES = 30
"""After so many, the orchestrator's own time-out is left to notice."""


class ReportQueue:
    """Holds each report until it is due, and tries again while the orchestrator is silent."""

    def __init__(self, orchestrator: Orchestrator, clock: Clock) -> None:
        self._orchestrator = orchestrator
        self._clock = clock
        self._waiting: list[tuple[float, int, Attempt, Outcome]] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to report."""
        return not self._waiting

    @property
    def dues(self) -> list[float]:
        """When each report is due, on `Clock.elapsed`."""
        return [due for due, *_ in self._waiting]

    def add(self, attempt: Attempt, outcome: Outcome, *, delay: float = 0.0) -> None:
        """Report this after so many seconds."""
        self._waiting.append((self._clock.elapsed() + delay, 0, attempt, outcome))

    def forget_delayed(self) -> None:
        """Leave what is not due yet to the lease: nobody is here any more to report it later."""
        self._waiting = [item for item in self._waiting if item[1] > 0]

    def send_due(self) -> bool:
        """Send what is due; say whether anything was sent."""
        now = self._clock.elapsed()
        due = [item for item in self._waiting if item[0] <= now]
        self._waiting = [item for item in self._waiting if item[0] > now]
        for _, tries, attempt, outcome in due:
            try:
                self._orchestrator.report(attempt, outcome)
            except PeragoError as error:
                _log.warning("cannot report %s: %s", attempt.reference_name, error.message)
                if tries + 1 < _MOST_TRIES:
                    again = now + _TRY_AGAIN_SECONDS
                    self._waiting.append((again, tries + 1, attempt, outcome))
        return bool(due)

"""Reports how an attempt ended, for callers that have no supervisor to do it."""

from __future__ import annotations

import logging

from perago.domain.attempt import Attempt
from perago.domain.changes import ChangeCount
from perago.domain.errors import PeragoError
from perago.domain.outcome import Outcome
from perago.ports import Orchestrator

_log = logging.getLogger(__name__)


class OrchestratorReporter:
    """The `OutcomeReporter` that asks the orchestrator once. A supervisor's tries again."""

    def __init__(self, attempt: Attempt, orchestrator: Orchestrator) -> None:
        self._attempt = attempt
        self._orchestrator = orchestrator

    def report(self, outcome: Outcome, changes: ChangeCount | None) -> bool:  # noqa: ARG002
        """Report; say whether the orchestrator took it."""
        try:
            stale = self._orchestrator.report(self._attempt, outcome)
        except PeragoError as error:
            _log.warning("could not report %s: %s", outcome.status, error.message)
            return False
        if stale is not None:
            _log.warning("%s is not reported: %s", outcome.status, stale)
        return stale is None

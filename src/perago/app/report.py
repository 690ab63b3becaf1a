"""Tells the orchestrator how an attempt ended, and tries again when it does not hear."""

from __future__ import annotations

import logging

from perago.domain.attempt import Attempt
from perago.domain.errors import PeragoError
from perago.domain.outcome import Outcome
from perago.ports import Clock, Orchestrator

_log = logging.getLogger(__name__)

_DELAYS_SECONDS = (0.5,)
"""Waits between tries to report. A report is idempotent: a second one is ignored. There are few:
the client tries again by itself, and afterwards the supervisor does, while the slot works on."""


def report_outcome(
    attempt: Attempt, outcome: Outcome, *, orchestrator: Orchestrator, clock: Clock
) -> bool:
    """Report; say whether the orchestrator heard."""
    for delay in (*_DELAYS_SECONDS, None):
        try:
            orchestrator.report(attempt, outcome)
        except PeragoError as error:
            if delay is None:
                # Our own error says it all, and the supervisor goes on trying.
                _log.warning("could not report %s: %s", outcome.status, error.message)
                return False
            _log.warning("report failed, trying again in %.1f s: %s", delay, error.message)
            clock.sleep(delay)
        else:
            return True
    return False

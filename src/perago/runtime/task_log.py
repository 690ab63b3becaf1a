"""Lines for the attempts' logs at the orchestrator."""

from __future__ import annotations

import logging

from perago.domain.attempt import Attempt
from perago.domain.errors import PeragoError
from perago.ports import Orchestrator
from perago.runtime.calls import Calls

_log = logging.getLogger(__name__)

_MOST_WAITING = 200
"""More than this are dropped: an orchestrator that does not answer must not fill the memory."""


class TaskLog:
    """Adds lines in their order, and is in nobody's way."""

    def __init__(self, orchestrator: Orchestrator, calls: Calls) -> None:
        self._orchestrator = orchestrator
        self._calls = calls
        self._waiting = 0

    def add(self, attempt: Attempt, text: str) -> None:
        """Add a line, unless too many wait already."""
        if self._waiting >= _MOST_WAITING:
            return
        self._waiting += 1
        self._calls.submit(lambda: self._orchestrator.append_log(attempt.task_id, text), self._take)

    def _take(self, answer: PeragoError | None) -> None:
        self._waiting -= 1
        if isinstance(answer, PeragoError):
            _log.debug("cannot add to a task's log: %s", answer.message)

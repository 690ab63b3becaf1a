"""Asks for work: one request per task name, in turn, so that no name starves.

Invariant: a poll whose answer is lost is never repeated and never cut short: the server counts
what it gave as begun, and only the response time-out gives it out again. For the same reason what
was already taken is returned when the next request fails.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from perago.adapters.conductor.answers import Asked
from perago.adapters.conductor.api import ConductorApi
from perago.adapters.conductor.polled_tasks import read_polled_tasks
from perago.adapters.conductor.wire import Query, quote_path
from perago.adapters.localfs.clock import SystemClock
from perago.domain.errors import OrchestratorError
from perago.domain.ids import WorkerId
from perago.domain.workflow import PolledTask

_log = logging.getLogger(__name__)
_elapsed = SystemClock().elapsed

LONGEST_WAIT_SECONDS = 5.0
"""The server refuses a longer wait."""
_TURN_SECONDS = 0.1
"""How long one of several names is waited for while the others wait for their turn."""


class Polling:
    """Polls of one client; safe to use from many threads."""

    def __init__(self, api: ConductorApi) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._turn = 0

    def poll(
        self, task_names: Sequence[str], worker_id: WorkerId, count: int, wait_seconds: float
    ) -> list[PolledTask]:
        """Up to `count` tasks that are there; else the first to come within the wait."""
        names = self._rotate(list(dict.fromkeys(task_names)))
        if not names or count < 1:
            return []
        taken = self._take_what_is_there(names, worker_id, count)
        give_up = _elapsed() + wait_seconds
        longest = LONGEST_WAIT_SECONDS if len(names) == 1 else _TURN_SECONDS
        while not taken and (left := give_up - _elapsed()) > 0:
            # One only: a long poll for more waits until it has them all.
            taken = self._ask(names[0], worker_id, 1, min(left, longest))
            names.append(names.pop(0))
        return taken

    def _rotate(self, names: list[str]) -> list[str]:
        """Another name first each time, for the first takes what room there is."""
        with self._lock:
            self._turn += 1
            start = self._turn % len(names) if names else 0
        return names[start:] + names[:start]

    def _take_what_is_there(
        self, names: list[str], worker_id: WorkerId, count: int
    ) -> list[PolledTask]:
        taken: list[PolledTask] = []
        for name in names:
            if len(taken) >= count:
                break
            try:
                taken += self._ask(name, worker_id, count - len(taken), 0.0)
            except OrchestratorError as error:
                if not taken:
                    raise
                _log.warning("%s; going on with %d tasks", error.message, len(taken))
                break
        return taken

    def _ask(
        self, name: str, worker_id: WorkerId, count: int, wait_seconds: float
    ) -> list[PolledTask]:
        asked = Asked(what=f"poll for task {name!r}", changes=True)
        query: Query = {"workerid": worker_id, "count": count, "timeout": int(wait_seconds * 1000)}
        path = f"/tasks/poll/batch/{quote_path(name)}"
        answer = self._api.take(path, asked, query=query, wait_seconds=wait_seconds)
        return read_polled_tasks(answer, asked)

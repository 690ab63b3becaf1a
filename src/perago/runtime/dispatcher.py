"""Polls for free slots and hands attempts to them: often while there is work, seldom when idle."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from perago.domain.errors import PeragoError
from perago.domain.ids import ExecutionId, WorkerId
from perago.domain.workflow import PolledTask
from perago.ports import Clock, Orchestrator
from perago.runtime.attempt_logs import attempt_log_path
from perago.runtime.leases import start_lease
from perago.runtime.slot import Assignment, Slot

_log = logging.getLogger(__name__)

_BUSY_POLL_SECONDS = 0.02
_BACK_OFF = 1.5
IDLE_POLL_SECONDS = 0.25
"""The longest wait between two polls of an idle worker."""


class Dispatcher:
    """Asks for no more attempts than there are free slots."""

    def __init__(
        self,
        orchestrator: Orchestrator,
        clock: Clock,
        *,
        worker_id: WorkerId,
        heartbeats: Mapping[str, float],
        logs_directory: Path,
    ) -> None:
        self._orchestrator = orchestrator
        self._clock = clock
        self._worker_id = worker_id
        self._heartbeats = heartbeats
        self._logs_directory = logs_directory
        self._delay = _BUSY_POLL_SECONDS
        self.next_poll = 0.0
        """When to poll next, on `Clock.elapsed`."""

    def poll_soon(self) -> None:
        """Something changed that may have scheduled an attempt."""
        self._delay = _BUSY_POLL_SECONDS
        self.next_poll = 0.0

    def poll(self, slots: Sequence[Slot]) -> list[Assignment]:
        """Fill free slots; return what was handed out."""
        # The slot used last comes first: its Spark is warm.
        idle = sorted((slot for slot in slots if slot.is_idle), key=lambda slot: -slot.last_used)
        began = self._clock.elapsed()
        polled = self._ask_for(len(idle)) if idle else []
        assigned = [
            self._assign(slot, task, began) for slot, task in zip(idle, polled, strict=False)
        ]
        self._delay = (
            _BUSY_POLL_SECONDS if polled else min(self._delay * _BACK_OFF, IDLE_POLL_SECONDS)
        )
        self.next_poll = self._clock.elapsed() + self._delay
        return assigned

    def _ask_for(self, count: int) -> list[PolledTask]:
        try:
            return self._orchestrator.poll(
                tuple(self._heartbeats), worker_id=self._worker_id, count=count, wait_seconds=0
            )
        except PeragoError as error:
            _log.warning("cannot poll: %s", error.message)
            return []

    def _assign(self, slot: Slot, polled: PolledTask, polled_at: float) -> Assignment:
        attempt = polled.attempt
        assignment = Assignment(
            polled=polled,
            execution_id=ExecutionId(uuid.uuid4().hex),
            lease=start_lease(
                polled_at=polled_at,
                lease_seconds=polled.lease_seconds,
                heartbeat_seconds=self._heartbeats[attempt.task_name],
                timeout_seconds=polled.timeout_seconds,
            ),
        )
        log_path = attempt_log_path(self._logs_directory, attempt, assignment.execution_id)
        slot.assign(assignment, log_path)
        return assignment

"""The `WorkerEvents` that become spans and metrics, in the supervisor's process.

Nothing here waits: spans go to a bounded queue, metrics are sums in memory.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from perago.adapters.telemetry.metrics import Instruments
from perago.adapters.telemetry.spans import AttemptSpans, status_of
from perago.domain.attempt import Attempt
from perago.domain.changes import ChangeCount
from perago.domain.execution import Execution
from perago.domain.ids import TaskId
from perago.domain.outcome import Outcome, Phase, direction_of
from perago.domain.spark_progress import SparkProgress


@dataclass(slots=True)
class _Running:
    began: float
    phase: Phase = Phase.VALIDATE


class TelemetryEvents:
    """Passes each event to the spans and the instruments."""

    def __init__(self, spans: AttemptSpans | None, instruments: Instruments) -> None:
        self._spans = spans
        self._instruments = instruments
        self._running: dict[TaskId, _Running] = {}

    def execution_began(self, execution: Execution) -> None:
        self._running[execution.attempt.task_id] = _Running(time.monotonic())
        if self._spans is not None:
            self._spans.begin(execution)

    def attempt_started(self, attempt: Attempt) -> None:
        """Told by `execution_began`, with more."""

    def phase_started(self, attempt: Attempt, phase: Phase) -> None:
        if self._spans is not None:
            self._spans.begin_phase(attempt, phase)
        if (running := self._running.get(attempt.task_id)) is not None:
            running.phase = phase

    def phase_ended(self, attempt: Attempt, phase: Phase, seconds: float) -> None:
        if self._spans is not None:
            self._spans.end_phase(attempt, seconds)
        self._instruments.phase_ended(attempt.task_name, phase, seconds)

    def transferred(self, attempt: Attempt, objects: int, size: int) -> None:
        if (running := self._running.get(attempt.task_id)) is not None:
            direction = direction_of(running.phase)
            self._instruments.transferred(attempt.task_name, direction, objects, size)

    def progressed(self, attempt: Attempt, message: str, fraction: float | None) -> None:
        """The orchestrator's task log has it."""

    def spark_progressed(self, attempt: Attempt, progress: SparkProgress, line: str | None) -> None:
        """The same."""

    def changes_found(self, attempt: Attempt, changes: ChangeCount) -> None:
        if self._spans is not None:
            self._spans.count(attempt, changes)

    def attempt_ended(self, attempt: Attempt, outcome: Outcome | None) -> None:
        running = self._running.pop(attempt.task_id, None)
        if self._spans is not None:
            self._spans.end(attempt, outcome)
        if running is not None:
            seconds = time.monotonic() - running.began
            self._instruments.attempt_ended(attempt.task_name, status_of(outcome), seconds)

    def executor_died(self, attempt: Attempt | None, how: str) -> None:
        self._instruments.executor_died()
        if attempt is not None and self._spans is not None:
            self._spans.note(attempt, "executor died", how)

    def polled(self, tasks: int) -> None:
        self._instruments.polled(tasks)

    def poll_failed(self, reason: str) -> None:  # noqa: ARG002
        self._instruments.poll_failed()

    def heartbeat_failed(self, attempt: Attempt, reason: str) -> None:
        self._instruments.heartbeat_failed()
        if self._spans is not None:
            self._spans.note(attempt, "heartbeat failed", reason)

    def lease_lost(self, attempt: Attempt, reason: str) -> None:
        self._instruments.lease_lost()
        if self._spans is not None:
            self._spans.note(attempt, "lease lost", reason)

"""What a supervisor tells whoever shows its work to people, or to the machines that watch it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from perago.domain.attempt import Attempt
from perago.domain.changes import ChangeCount
from perago.domain.execution import Execution
from perago.domain.outcome import Outcome, Phase
from perago.domain.spark_progress import SparkProgress

_log = logging.getLogger(__name__)


class WorkerEvents(Protocol):
    """Hears what happens to attempts, on the supervisor's thread. Must be quick."""

    def execution_began(self, execution: Execution) -> None:
        """What is about to run, with all that names it; `attempt_started` follows."""
        ...

    def attempt_started(self, attempt: Attempt) -> None:
        """An attempt was handed to an executor."""
        ...

    def phase_started(self, attempt: Attempt, phase: Phase) -> None:
        """It entered a phase."""
        ...

    def phase_ended(self, attempt: Attempt, phase: Phase, seconds: float) -> None:
        """It left a phase."""
        ...

    def transferred(self, attempt: Attempt, objects: int, size: int) -> None:
        """It moved objects and bytes; which way, its phase says (`direction_of`)."""
        ...

    def progressed(self, attempt: Attempt, message: str, fraction: float | None) -> None:
        """Its body said how far it is."""
        ...

    def spark_progressed(self, attempt: Attempt, progress: SparkProgress, line: str | None) -> None:
        """Spark is so far with its body; a line is what its task's log gets of that."""
        ...

    def changes_found(self, attempt: Attempt, changes: ChangeCount) -> None:
        """How many files it changed; told before its end, where it came to that."""
        ...

    def attempt_ended(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """It is over; None where it was given up and somebody else decides."""
        ...

    def executor_died(self, attempt: Attempt | None, how: str) -> None:
        """An executor is gone and will be replaced."""
        ...

    def polled(self, tasks: int) -> None:
        """The orchestrator answered a poll with so many tasks."""
        ...

    def poll_failed(self, reason: str) -> None:
        """The orchestrator did not answer a poll, or refused it."""
        ...

    def heartbeat_failed(self, attempt: Attempt, reason: str) -> None:
        """A lease could not be renewed; it is tried again while the lease lasts."""
        ...

    def lease_lost(self, attempt: Attempt, reason: str) -> None:
        """The attempt is given up: it may publish and report nothing any more."""
        ...


class IgnoredEvents:
    """`WorkerEvents` of which nothing is shown: a base for those who care for a few."""

    def execution_began(self, execution: Execution) -> None:
        """Not shown."""

    def attempt_started(self, attempt: Attempt) -> None:
        """Not shown."""

    def phase_started(self, attempt: Attempt, phase: Phase) -> None:
        """Not shown."""

    def phase_ended(self, attempt: Attempt, phase: Phase, seconds: float) -> None:
        """Not shown."""

    def transferred(self, attempt: Attempt, objects: int, size: int) -> None:
        """Not shown."""

    def progressed(self, attempt: Attempt, message: str, fraction: float | None) -> None:
        """Not shown."""

    def spark_progressed(self, attempt: Attempt, progress: SparkProgress, line: str | None) -> None:
        """Not shown."""

    def changes_found(self, attempt: Attempt, changes: ChangeCount) -> None:
        """Not shown."""

    def attempt_ended(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """Not shown."""

    def executor_died(self, attempt: Attempt | None, how: str) -> None:
        """Not shown."""

    def polled(self, tasks: int) -> None:
        """Not shown."""

    def poll_failed(self, reason: str) -> None:
        """Not shown."""

    def heartbeat_failed(self, attempt: Attempt, reason: str) -> None:
        """Not shown."""

    def lease_lost(self, attempt: Attempt, reason: str) -> None:
        """Not shown."""


class FanOutEvents:
    """Tells several consumers. One that raises harms neither the others nor the supervisor."""

    def __init__(self, consumers: Sequence[WorkerEvents]) -> None:
        self._consumers = tuple(consumers)
        self._broken: set[int] = set()

    def execution_began(self, execution: Execution) -> None:
        self._tell(lambda consumer: consumer.execution_began(execution))

    def attempt_started(self, attempt: Attempt) -> None:
        self._tell(lambda consumer: consumer.attempt_started(attempt))

    def phase_started(self, attempt: Attempt, phase: Phase) -> None:
        self._tell(lambda consumer: consumer.phase_started(attempt, phase))

    def phase_ended(self, attempt: Attempt, phase: Phase, seconds: float) -> None:
        self._tell(lambda consumer: consumer.phase_ended(attempt, phase, seconds))

    def transferred(self, attempt: Attempt, objects: int, size: int) -> None:
        self._tell(lambda consumer: consumer.transferred(attempt, objects, size))

    def progressed(self, attempt: Attempt, message: str, fraction: float | None) -> None:
        self._tell(lambda consumer: consumer.progressed(attempt, message, fraction))

    def spark_progressed(self, attempt: Attempt, progress: SparkProgress, line: str | None) -> None:
        self._tell(lambda consumer: consumer.spark_progressed(attempt, progress, line))

    def changes_found(self, attempt: Attempt, changes: ChangeCount) -> None:
        self._tell(lambda consumer: consumer.changes_found(attempt, changes))

    def attempt_ended(self, attempt: Attempt, outcome: Outcome | None) -> None:
        self._tell(lambda consumer: consumer.attempt_ended(attempt, outcome))

    def executor_died(self, attempt: Attempt | None, how: str) -> None:
        self._tell(lambda consumer: consumer.executor_died(attempt, how))

    def polled(self, tasks: int) -> None:
        self._tell(lambda consumer: consumer.polled(tasks))

    def poll_failed(self, reason: str) -> None:
        self._tell(lambda consumer: consumer.poll_failed(reason))

    def heartbeat_failed(self, attempt: Attempt, reason: str) -> None:
        self._tell(lambda consumer: consumer.heartbeat_failed(attempt, reason))

    def lease_lost(self, attempt: Attempt, reason: str) -> None:
        self._tell(lambda consumer: consumer.lease_lost(attempt, reason))

    def _tell(self, call: Callable[[WorkerEvents], None]) -> None:
        for number, consumer in enumerate(self._consumers):
            try:
                call(consumer)
            # Whoever shows the work must never stop it. Said once: a consumer that fails at every
            # event would fill the log.
            except Exception:  # noqa: BLE001
                if number not in self._broken:
                    self._broken.add(number)
                    _log.exception(
                        "%s failed; further failures of it are not logged", type(consumer).__name__
                    )

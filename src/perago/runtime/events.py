"""What a supervisor tells whoever shows its work to people."""

from __future__ import annotations

from typing import Protocol

from perago.domain.attempt import Attempt
from perago.domain.outcome import Outcome, Phase


class WorkerEvents(Protocol):
    """Hears what happens to attempts, on the supervisor's thread. Must be quick."""

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
        """It moved objects and bytes."""
        ...

    def progressed(self, attempt: Attempt, message: str, fraction: float | None) -> None:
        """Its body said how far it is."""
        ...

    def attempt_ended(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """It is over; None where it was given up and somebody else decides."""
        ...

    def executor_died(self, attempt: Attempt | None, how: str) -> None:
        """An executor is gone and will be replaced."""
        ...

"""What happens in a worker, as values: the one stream that logs, displays, metrics and spans read.

Invariant: `AttemptTally` is the only record of where an attempt is and what it cost. Subscribers
get it with the end of the attempt, and need not count along. Phases come in any order.

To add an event: write its class here and add it to `AttemptEvent` or `Event`; emit it in the
supervisor; add a `case` to the handlers that show it, and a test. Handlers ignore other events
(`case _`), and `FanOut` and `RunFollower` pass on every event, so nothing else changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from perago.domain.attempt import Attempt
from perago.domain.changes import ChangeCount
from perago.domain.execution import Execution
from perago.domain.outcome import Direction, Outcome, Phase, direction_of
from perago.domain.spark_progress import SparkProgress

GIVEN_UP = "GIVEN_UP"
"""The status of an attempt about which somebody else decides: its lease was lost."""


@dataclass(slots=True, kw_only=True)
class AttemptTally:
    """Where one execution is, how long each phase took, and what it moved and changed."""

    execution: Execution
    phase: Phase = Phase.VALIDATE
    phases: dict[Phase, float] = field(default_factory=dict)
    objects: dict[Direction, int] = field(default_factory=lambda: dict.fromkeys(Direction, 0))
    size: dict[Direction, int] = field(default_factory=lambda: dict.fromkeys(Direction, 0))
    changes: ChangeCount | None = None

    def leave(self, phase: Phase, seconds: float) -> None:
        """Add the time of a phase; one that is entered twice adds up."""
        self.phases[phase] = self.phases.get(phase, 0.0) + seconds

    def move(self, objects: int, size: int) -> Direction:
        """Add what was moved; the phase says which way."""
        direction = direction_of(self.phase)
        self.objects[direction] += objects
        self.size[direction] += size
        return direction


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    """An attempt was handed to an executor."""

    execution: Execution

    @property
    def attempt(self) -> Attempt:
        """Whose execution it is."""
        return self.execution.attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStarted:
    """An attempt entered a phase. A phase may be entered twice, and in any order."""

    attempt: Attempt
    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEnded:
    """An attempt left a phase."""

    attempt: Attempt
    phase: Phase
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred:
    """An attempt moved objects and bytes since the last such event."""

    attempt: Attempt
    direction: Direction
    objects: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """A body said how far it is."""

    attempt: Attempt
    message: str
    fraction: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkProgressed:
    """Spark is so far with a body; `line`, where there is one, is for the task's log."""

    attempt: Attempt
    progress: SparkProgress
    line: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """An attempt is over. Without an outcome it was given up, and somebody else decides."""

    attempt: Attempt
    outcome: Outcome | None
    tally: AttemptTally
    seconds: float
    """From being handed to an executor to its end."""

    @property
    def status(self) -> str:
        """The status as people and machines are shown it: `GIVEN_UP` without an outcome."""
        return GIVEN_UP if self.outcome is None else self.outcome.status.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorDied:
    """An executor is gone and will be replaced. An idle one had no attempt and no phase."""

    attempt: Attempt | None
    phase: Phase | None
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled:
    """The orchestrator answered a poll with so many tasks."""

    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PollFailed:
    """The orchestrator did not answer a poll, or refused it."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatFailed:
    """A lease could not be renewed; it is tried again while the lease lasts."""

    attempt: Attempt
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost:
    """An attempt is given up: from now on it publishes and reports nothing."""

    attempt: Attempt
    reason: str


AttemptEvent = (
    AttemptStarted
    | PhaseStarted
    | PhaseEnded
    | Transferred
    | Progressed
    | SparkProgressed
    | AttemptEnded
    | HeartbeatFailed
    | LeaseLost
)
"""Events of one attempt; each has its `attempt`."""

Event = AttemptEvent | ExecutorDied | Polled | PollFailed


class EventHandler(Protocol):
    """Takes every event, on the supervisor's thread. Must be quick, and picks what it cares for."""

    def handle(self, event: Event) -> None:
        """Take one event."""
        ...

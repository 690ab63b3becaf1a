"""One place for an executor, and the attempt in it, as the turn knows them: no process in here."""

from __future__ import annotations

from dataclasses import dataclass

from perago.domain.attempt import Attempt
from perago.domain.events import AttemptTally
from perago.domain.execution import Execution
from perago.domain.ids import ExecutionId
from perago.domain.outcome import Outcome, Phase
from perago.domain.workflow import PolledTask
from perago.runtime.leases import LeaseState, next_due


@dataclass(slots=True, kw_only=True)
class Assignment:
    """The attempt that an executor has."""

    polled: PolledTask
    tally: AttemptTally
    lease: LeaseState
    began: float
    is_brief: bool
    """Whether it will be over before a poll is answered, if it is like those before it."""
    is_heard_of: bool = False
    """Whether its executor said, or was seen to be, where it is."""
    seen_in: Phase | None = None
    """A phase that was seen in shared memory, until its executor tells of it, too."""
    is_decided: bool = False
    """Whether its executor said how it ended; from then on the report is the supervisor's."""
    decided_at: float = 0.0
    is_slow: bool = False
    """Whether its clean-up takes so long that its slot is not counted on any more."""
    outcome: Outcome | None = None
    """How it ended; None also where somebody else decides, since it was given up."""
    beat_is_under_way: bool = False
    cancelled_at: float | None = None
    failure: str | None = None
    """Why the supervisor ends it: told as its reason, where it is still to be reported."""

    @property
    def attempt(self) -> Attempt:
        """Whose attempt it is."""
        return self.polled.attempt

    @property
    def execution(self) -> Execution:
        """Everything that names it in a log."""
        return self.tally.execution

    @property
    def execution_id(self) -> ExecutionId:
        """Which execution it is."""
        return self.tally.execution.execution_id

    @property
    def phase(self) -> Phase:
        """Where it is."""
        return self.tally.phase

    @property
    def is_still_brief(self) -> bool:
        """Whether it was expected to be over in no time, and nothing was seen of it since."""
        return self.is_brief and not self.is_heard_of

    @property
    def needs_lease(self) -> bool:
        """Whether the lease must be kept: until the outcome is known, which is then reported.

        A heartbeat is the same request as a report. One that crosses a report can undo it.
        """
        return self.cancelled_at is None and not self.is_decided

    @property
    def lease_due(self) -> float | None:
        """When its lease must be looked at again, on `Clock.elapsed`."""
        if not self.needs_lease:
            return None
        return next_due(self.lease, beats=not self.beat_is_under_way)


@dataclass(slots=True, kw_only=True)
class Slot:
    """A place for one executor; the process in it may be replaced."""

    number: int
    is_started: bool = False
    """Whether a process is in it, or was and its end was not noticed yet."""
    is_ready: bool = False
    is_ending: bool = False
    """Whether its process was killed, or its end was noticed: it takes no more attempts."""
    broken: str | None = None
    """Why its process was ended, where that was the fault of what runs in it."""
    retired_at: float | None = None
    """When it was asked to end, to be replaced."""
    attempts_run: int = 0
    assignment: Assignment | None = None
    deaths_in_a_row: int = 0
    died_at_work: bool = False
    """Whether its last process died under an attempt, and not by itself."""
    respawn_at: float = 0.0
    last_used: float = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether it can take an attempt."""
        can_run = self.is_ready and self.retired_at is None and not self.is_ending
        return can_run and self.assignment is None

    @property
    def is_finishing(self) -> bool:
        """Whether its attempt is decided, or as brief as it should be, and will soon make room."""
        if self.assignment is None or self.is_ending:
            return False
        is_cleaning_up = self.assignment.is_decided and not self.assignment.is_slow
        return is_cleaning_up or self.assignment.is_still_brief

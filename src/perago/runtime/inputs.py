"""What a turn of a worker hears: see `turn.py`."""

from __future__ import annotations

from dataclasses import dataclass

from perago.domain.attempt import Attempt, AttemptSnapshot
from perago.domain.errors import PeragoError
from perago.domain.ids import ExecutionId
from perago.domain.outcome import Phase
from perago.domain.workflow import PolledTask
from perago.runtime.actions import Beat
from perago.runtime.messages import FromExecutor
from perago.runtime.polling import Poll
from perago.runtime.reports import Report, ReportTaken


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """An executor said something."""

    slot: int
    message: FromExecutor
    memory_bytes: int = 0
    """What the executor holds in memory, where that bounds its use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Shared memory says that an attempt is in this phase; its executor may not have said so."""

    slot: int
    execution_id: ExecutionId
    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """What came from an executor is not from it, or its connection is closed."""

    slot: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaExceeded:
    """An attempt took more of the machine than it may; the reason is told as it is."""

    slot: int
    execution_id: ExecutionId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A process is over. What it said last comes with this: it takes nothing more, whatever that
    was.
    """

    slot: int
    how: str
    phase: Phase | None = None
    """Where its attempt was, by shared memory."""
    last_words: tuple[FromExecutor, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnFailed:
    """The operating system refused a new process."""

    slot: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PollAnswered:
    """A poll came back."""

    poll: Poll
    answer: list[PolledTask] | PeragoError


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatAnswered:
    """A heartbeat, and the read that follows it, came back."""

    beat: Beat
    answer: AttemptSnapshot | PeragoError


@dataclass(frozen=True, slots=True, kw_only=True)
class DeathsCounted:
    """How many executors the step of a report killed before, by the orchestrator's record."""

    report: Report
    answer: int | PeragoError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAnswered:
    """A report came back."""

    report: Report
    answer: ReportTaken | PeragoError


@dataclass(frozen=True, slots=True, kw_only=True)
class HandBackAnswered:
    """A delivery was given back, or could not be."""

    attempt: Attempt
    error: PeragoError | None


Input = (
    Heard
    | Seen
    | Broken
    | QuotaExceeded
    | Gone
    | SpawnFailed
    | PollAnswered
    | BeatAnswered
    | DeathsCounted
    | ReportAnswered
    | HandBackAnswered
)

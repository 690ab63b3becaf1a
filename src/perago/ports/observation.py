"""What an attempt tells while it runs, and what it is told."""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol

from perago.domain.attempt import Attempt
from perago.domain.changes import ChangeCount
from perago.domain.outcome import Outcome, Phase
from perago.domain.spark_progress import SparkProgress


class AttemptObserver(Protocol):
    """Hears what an attempt does. Never raises: watching must not change what is watched."""

    def phase_started(self, phase: Phase) -> None:
        """A phase begins."""
        ...

    def phase_ended(self, phase: Phase, seconds: float) -> None:
        """A phase is over, whether or not it succeeded."""
        ...

    def transferred(self, objects: int, size: int) -> None:
        """Objects and bytes moved since the last call."""
        ...

    def progressed(self, message: str, fraction: float | None) -> None:
        """The body said how far it is."""
        ...

    def spark_progressed(self, progress: SparkProgress, line: str | None) -> None:
        """Spark is so far with the body; now and then with a line for the task's log."""
        ...


class Lease(Protocol):
    """How long the orchestrator still counts on this attempt.

    Kept by the supervisor's heartbeats: a body cannot stall it.
    """

    @property
    def deadline(self) -> float:
        """When it runs out unless renewed, on `Clock.elapsed`."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether the attempt was cancelled or its lease given up."""
        ...

    @property
    def poll_count(self) -> int | None:
        """Which delivery of the task is the one that runs; None where the polled one is.

        The same task can be delivered to a worker again while it runs there: it runs once.
        """
        ...


class OutcomeReporter(Protocol):
    """Reports how an attempt ended."""

    def report(self, outcome: Outcome, changes: ChangeCount | None) -> bool:
        """Report before anything is cleaned up; say whether the orchestrator took it.

        False where it could not be told in time, or counts on another delivery by now.
        `changes` is how many files the attempt changed, where it came to comparing them.
        """
        ...


class BodyIsolation(Protocol):
    """Puts the process back as it was before a body ran in it."""

    def around_body(self) -> AbstractContextManager[None]:
        """Run a body in this block; what it did to the process is undone at its end."""
        ...


class Failpoint(StrEnum):
    """The named moments of an attempt at which a test can crash, pause or fail it."""

    VALIDATED = "validated"
    PREPARED = "prepared"
    DOWNLOADED = "downloaded"
    PRE_CHECKED = "pre-checked"
    BODY_DONE = "body-done"
    POST_CHECKED = "post-checked"
    DIFFED = "diffed"
    FENCED_BEFORE_STAGE = "fenced-before-stage"
    STAGED = "staged"
    FENCED_BEFORE_PUBLISH = "fenced-before-publish"
    HEAD_READ = "head-read"
    FENCED_BEFORE_ACT = "fenced-before-act"
    TIMED_BEFORE_ACT = "timed-before-act"
    PUBLISHED = "published"
    VERIFIED = "verified"
    REPORTED = "reported"
    STAGING_REMOVED = "staging-removed"
    CLEANED = "cleaned"


class Failpoints(Protocol):
    """Does nothing in production."""

    def hit(self, point: Failpoint, attempt: Attempt) -> None:
        """The attempt is at this point; may raise, sleep or end the process."""
        ...

"""The steps of a run as a board of lines, kept up to date by events.

Invariant: what the orchestrator says of a step wins over what its executor said.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from perago.cli.speed import NOTHING_MOVED, Moved
from perago.domain.attempt import Attempt, AttemptStatus
from perago.domain.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    PhaseStarted,
    Progressed,
    SparkProgressed,
    Transferred,
)
from perago.domain.outcome import Completed, Failed, JsonObject, Outcome, Phase, TerminalFailure
from perago.domain.workflow import TaskState, WorkflowState

STRUCTURAL_TYPES = ("FORK_JOIN", "JOIN")
"""They hold steps together and are none."""


class StepStatus(Enum):
    """How a step stands, as people see it."""

    PENDING = auto()
    RUNNING = auto()
    WAITING = auto()
    RETRYING = auto()
    COMPLETED = auto()
    FAILED = auto()
    CANCELLED = auto()


@dataclass(slots=True, kw_only=True)
class StepLine:
    """One step; `began` is on the board's clock, `seconds` is set once it is over.

    Both are of all its attempts together.
    """

    reference: str
    kind: str = "SIMPLE"
    status: StepStatus = StepStatus.PENDING
    phase: Phase | None = None
    place: str = ""
    """Where it runs, if not here: its phases are not known then."""
    message: str = ""
    fraction: float | None = None
    spark: str = ""
    """How far Spark is with its body."""
    moved: Moved = NOTHING_MOVED
    """All that its attempt moved."""
    moved_in_phase: Moved = NOTHING_MOVED
    phase_began: float | None = None
    retries: int = 0
    began: float | None = None
    seconds: float | None = None


def plan_lines(definition: JsonObject) -> list[StepLine]:
    """The steps of a WorkflowDef in order, those inside branches included."""
    return [
        StepLine(reference=str(task["taskReferenceName"]), kind=str(task["type"]))
        for task in walk_tasks(definition)
        if task.get("type") not in STRUCTURAL_TYPES
    ]


def walk_tasks(definition: JsonObject) -> Iterator[JsonObject]:
    """The workflow tasks of a WorkflowDef in order, those inside branches included."""
    yield from _walk(definition.get("tasks"))


def _walk(tasks: object) -> Iterator[JsonObject]:
    for task in tasks if isinstance(tasks, list) else ():
        if isinstance(task, list):
            yield from _walk(task)
        elif isinstance(task, dict):
            yield task
            yield from _walk(task.get("forkTasks"))


class Board:
    """Lines by reference name. Written by the supervisor's thread, read by the one that draws."""

    def __init__(self, lines: Sequence[StepLine], now: Callable[[], float]) -> None:
        self._lines = {line.reference: line for line in lines}
        self._now = now
        self._lock = threading.Lock()

    def lines(self) -> list[StepLine]:
        """A copy of all lines, `seconds` as of now."""
        with self._lock:
            return [self._as_of_now(line) for line in self._lines.values()]

    def line(self, reference: str) -> StepLine:
        """A copy of one step's line."""
        with self._lock:
            return self._as_of_now(self._line(reference))

    def handle(self, event: Event) -> None:
        """Show what an attempt does."""
        match event:
            case AttemptStarted():
                self.start(event.attempt)
            case PhaseStarted(attempt=attempt, phase=phase):
                self.enter(attempt, phase)
            case Transferred(attempt=attempt, objects=objects, size=size):
                self.move(attempt, objects, size)
            case Progressed(attempt=attempt, message=message, fraction=fraction):
                self.tell(attempt, message, fraction)
            case SparkProgressed(attempt=attempt, progress=progress):
                self.tell_spark(attempt, progress.describe())
            case AttemptEnded(attempt=attempt, outcome=outcome):
                self.end(attempt, outcome)
            case _:
                pass

    def start(self, attempt: Attempt, *, place: str = "") -> None:
        """An attempt of the step began, elsewhere if a place is given."""
        with self._lock:
            old, now = self._line(attempt.reference_name), self._now()
            self._lines[old.reference] = StepLine(
                reference=old.reference,
                kind=old.kind,
                status=StepStatus.RUNNING,
                retries=attempt.retry_count,
                # A step takes as long as all its attempts.
                began=now if old.began is None else old.began,
                place=place,
            )

    def enter(self, attempt: Attempt, phase: Phase) -> None:
        """The attempt entered a phase."""
        with self._lock:
            line = self._line(attempt.reference_name)
            line.phase, line.phase_began, line.moved_in_phase = phase, self._now(), NOTHING_MOVED
            line.spark = ""

    def move(self, attempt: Attempt, objects: int, size: int) -> None:
        """The attempt moved objects."""
        with self._lock:
            line = self._line(attempt.reference_name)
            line.moved = line.moved.plus(objects, size)
            line.moved_in_phase = line.moved_in_phase.plus(objects, size)

    def tell(self, attempt: Attempt, message: str, fraction: float | None) -> None:
        """The body said how far it is."""
        with self._lock:
            line = self._line(attempt.reference_name)
            line.message, line.fraction = message, fraction

    def tell_spark(self, attempt: Attempt, how_far: str) -> None:
        """Spark is so far with the body."""
        with self._lock:
            self._line(attempt.reference_name).spark = how_far

    def end(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """The attempt is over; whether it is retried, the orchestrator says later."""
        with self._lock:
            line = self._line(attempt.reference_name)
            line.seconds = self._elapsed(line)
            line.fraction = None
            match outcome:
                case Completed():
                    line.status, line.phase, line.message = StepStatus.COMPLETED, None, ""
                case Failed() | TerminalFailure():
                    line.status, line.message = StepStatus.FAILED, outcome.reason
                case None:
                    line.status, line.message = StepStatus.FAILED, "given up"

    def observe(self, workflow: WorkflowState) -> None:
        """Correct every line by what the orchestrator says."""
        with self._lock:
            for task in _latest(workflow.tasks):
                if task.task_type in STRUCTURAL_TYPES:
                    continue
                line = self._line(task.attempt.reference_name)
                line.kind = task.task_type
                line.status = _status_of(task)
                line.retries = task.attempt.retry_count
                if task.status.is_terminal and line.seconds is None:
                    line.seconds = task.seconds
                if line.status is StepStatus.FAILED and task.reason is not None:
                    line.message = task.reason

    def _line(self, reference: str) -> StepLine:
        return self._lines.setdefault(reference, StepLine(reference=reference))

    def _as_of_now(self, line: StepLine) -> StepLine:
        began = line.phase_began
        in_phase = line.moved_in_phase.after(0.0 if began is None else self._now() - began)
        return replace(line, seconds=self._elapsed(line), moved_in_phase=in_phase)

    def _elapsed(self, line: StepLine) -> float | None:
        if line.seconds is not None or line.began is None:
            return line.seconds
        return self._now() - line.began


def _latest(tasks: Iterable[TaskState]) -> Iterable[TaskState]:
    return {task.attempt.reference_name: task for task in tasks}.values()


def _status_of(task: TaskState) -> StepStatus:
    match task.status:
        case AttemptStatus.SCHEDULED:
            return StepStatus.RETRYING if task.attempt.retry_count else StepStatus.PENDING
        case AttemptStatus.IN_PROGRESS:
            waits = task.task_type in ("HUMAN", "WAIT")
            return StepStatus.WAITING if waits else StepStatus.RUNNING
        case AttemptStatus.COMPLETED | AttemptStatus.COMPLETED_WITH_ERRORS | AttemptStatus.SKIPPED:
            return StepStatus.COMPLETED
        case AttemptStatus.CANCELED:
            return StepStatus.CANCELLED
        case _:
            return StepStatus.FAILED

"""What shows a run while it goes on; one view for each kind of reader.

A view hears of one run only. It is entered before the run begins and left when it is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from perago.bootstrap import StoreInForce
from perago.cli.output import show_seconds
from perago.domain.attempt import AttemptStatus
from perago.domain.events import EventHandler
from perago.domain.workflow import TaskState, WorkflowState


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """What is known when a run begins. `workspace` is `REPO@BRANCH` and the input commit."""

    workflow: WorkflowState
    continued: bool
    workspace: tuple[str, str] | None
    store: StoreInForce
    server: str | None = None
    """Which orchestrator it is, where workers elsewhere do the work."""


class RunView(EventHandler, Protocol):
    """Shows the events of a run, and what else is known of it."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def run_began(self, header: RunHeader) -> None:
        """The workflow instance exists, or was found."""
        ...

    def observed(self, workflow: WorkflowState) -> None:
        """What the orchestrator says, whenever it was asked."""
        ...

    def attempt_seen(self, task: TaskState) -> None:
        """The orchestrator says that a worker somewhere runs an attempt."""
        ...

    def attempt_over(self, task: TaskState) -> None:
        """The orchestrator says that an attempt, which ran elsewhere, is over."""
        ...

    def step_waits(self, task: TaskState, how_to_complete: str | None) -> None:
        """A step waits for a person, or, without a command that completes it, for a time."""
        ...

    def stop_requested(self, *, hurry: bool) -> None:
        """A signal came. Called inside its handler: no lock may be taken here."""
        ...

    def warn(self, text: str) -> None:
        """Something is wrong and work goes on."""
        ...


def say_waiting(task: TaskState, how_to_complete: str | None) -> str:
    """What a waiting step waits for, and what to do."""
    if how_to_complete is not None:
        return f"waits for a person; complete it with `{how_to_complete}`"
    until = task.input.get("until") or task.input.get("duration")
    return f"waits ({until})" if until else "waits"


def say_over(task: TaskState) -> str:
    """How an attempt ended, by what the orchestrator knows: not in which phase."""
    word = "completed in" if task.status is AttemptStatus.COMPLETED else f"{_words(task)} after"
    took = "" if task.seconds is None else f" {show_seconds(task.seconds)}"
    reason = f": {task.reason}" if task.reason else ""
    return f"{word}{took}{reason}" if took else f"{word.rpartition(' ')[0]}{reason}"


def _words(task: TaskState) -> str:
    return task.status.lower().replace("_", " ")


def say_stopping(*, hurry: bool) -> str:
    """What a signal leads to."""
    if hurry:
        return "stopping now: running attempts are given up"
    return "stopping: running attempts may finish; Ctrl-C again gives them up"

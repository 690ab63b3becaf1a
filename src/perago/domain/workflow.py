"""What an orchestrator knows of a workflow instance and its tasks, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from perago.domain.attempt import Attempt, AttemptStatus
from perago.domain.ids import WorkflowId
from perago.domain.outcome import JsonObject


class WorkflowStatus(StrEnum):
    """The status of a workflow instance, in Conductor's words."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    TERMINATED = "TERMINATED"

    @property
    def is_terminal(self) -> bool:
        """Whether the instance is over."""
        return self not in (WorkflowStatus.RUNNING, WorkflowStatus.PAUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolledTask:
    """An attempt that was handed to a worker, with its input and its time limits.

    `lease_seconds` is the TaskDef's responseTimeoutSeconds: without a heartbeat for that long,
    the attempt times out. `timeout_seconds` is what is left for the whole attempt, from this poll
    on; None is no bound.

    Where the input cannot be given to a task (nested too deep, a number that is too long, stored
    elsewhere), `refusal` says why and `input` is empty: the worker reports the attempt as failed.
    """

    attempt: Attempt
    input: JsonObject
    lease_seconds: float
    timeout_seconds: float | None = None
    refusal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """One task attempt inside a workflow instance."""

    attempt: Attempt
    task_type: str
    status: AttemptStatus
    input: JsonObject
    output: JsonObject
    reason: str | None = None
    scheduled_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def seconds(self) -> float | None:
        """How long it took, once it began and is over."""
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowState:
    """One workflow instance; `tasks` holds every attempt, oldest first, retried ones too."""

    id: WorkflowId
    name: str
    version: int
    status: WorkflowStatus
    input: JsonObject
    output: JsonObject
    tasks: tuple[TaskState, ...]
    started_at: datetime
    ended_at: datetime | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of a task attempt's log at the orchestrator."""

    at: datetime
    text: str

"""Who an attempt is, what the orchestrator says of it, and the fence between the two.

Invariant: the fence fails closed. Whatever is not positively the polled attempt, still in
progress, is stale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from perago.domain.errors import StaleAttemptError
from perago.domain.ids import TaskId, WorkerId, WorkflowId


class AttemptStatus(StrEnum):
    """The status of one task attempt, in Conductor's words."""

    SCHEDULED = "SCHEDULED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    COMPLETED_WITH_ERRORS = "COMPLETED_WITH_ERRORS"
    FAILED = "FAILED"
    FAILED_WITH_TERMINAL_ERROR = "FAILED_WITH_TERMINAL_ERROR"
    TIMED_OUT = "TIMED_OUT"
    CANCELED = "CANCELED"
    SKIPPED = "SKIPPED"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing that is reported later can change it."""
        return self not in (AttemptStatus.SCHEDULED, AttemptStatus.IN_PROGRESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalTask:
    """A step of one workflow instance, over all its retries and executions."""

    workflow_id: WorkflowId
    reference_name: str
    iteration: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The identity of one task execution as it was polled.

    A delivery is one hand-out of a task id to a worker. It is told apart from other deliveries of
    the same task id by `scheduled_time`, `poll_count` and `worker_id`. Each of these is None where
    the orchestrator does not give it; the fence compares what there is.
    """

    workflow_id: WorkflowId
    task_id: TaskId
    task_name: str
    reference_name: str
    retry_count: int = 0
    seq: int = 0
    iteration: int = 0
    worker_id: WorkerId | None = None
    poll_count: int | None = None
    scheduled_time: int | None = None
    """When the orchestrator queued this task id last, in its own milliseconds: a rerun of the same
    task id has another one."""
    retried_task_id: TaskId | None = None
    """The task id of the attempt that this one retries."""
    root_workflow_id: WorkflowId | None = None
    """The outermost workflow instance: this one, unless it runs as a sub-workflow of another. None
    where a poll does not say it; `Orchestrator.find_root` then does."""

    @property
    def logical_task(self) -> LogicalTask:
        """What all retries of this attempt have in common."""
        return LogicalTask(
            workflow_id=self.workflow_id,
            reference_name=self.reference_name,
            iteration=self.iteration,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSnapshot:
    """What the orchestrator says of a task id right now."""

    status: AttemptStatus
    workflow_id: WorkflowId
    task_id: TaskId
    retry_count: int
    worker_id: WorkerId | None = None
    poll_count: int | None = None
    scheduled_time: int | None = None
    is_retried: bool = False
    """Whether a later attempt took its place already: a rerun can queue such a task id again."""


def decide_staleness(attempt: Attempt, snapshot: AttemptSnapshot) -> str | None:
    """Say why the attempt is stale, or None while it is the current one."""
    if snapshot.status is not AttemptStatus.IN_PROGRESS:
        return f"its status is {snapshot.status}, not IN_PROGRESS"
    if snapshot.workflow_id != attempt.workflow_id:
        return f"it belongs to workflow {snapshot.workflow_id}, not {attempt.workflow_id}"
    if snapshot.task_id != attempt.task_id:
        return f"the orchestrator answered for task {snapshot.task_id}"
    if snapshot.retry_count != attempt.retry_count:
        return f"its retry count is {snapshot.retry_count}, not {attempt.retry_count}"
    if snapshot.is_retried:
        return "a later attempt of its step has taken its place"
    if _differ(snapshot.scheduled_time, attempt.scheduled_time):
        return "the same task id was scheduled anew since it was delivered"
    if _differ(snapshot.worker_id, attempt.worker_id):
        return f"it was handed to worker {snapshot.worker_id}, not {attempt.worker_id}"
    if _differ(snapshot.poll_count, attempt.poll_count):
        return f"it was delivered again: poll {snapshot.poll_count}, not {attempt.poll_count}"
    return None


def decide_orphan(
    attempt: Attempt, snapshot: AttemptSnapshot, *, is_dead: Callable[[WorkerId], bool]
) -> Attempt | None:
    """The attempt, if a dead worker holds it and it may be reported as failed; else None.

    What is known of the attempt comes from a file that a body could write. So the orchestrator must
    say that it is current and that a dead worker holds it, and its word fills what the file lacks.
    """
    if snapshot.worker_id is None or not is_dead(snapshot.worker_id):
        return None
    if decide_staleness(attempt, snapshot) is not None:
        return None
    poll_count, scheduled_time = snapshot.poll_count, snapshot.scheduled_time
    return replace(
        attempt,
        worker_id=snapshot.worker_id,
        poll_count=attempt.poll_count if poll_count is None else poll_count,
        scheduled_time=attempt.scheduled_time if scheduled_time is None else scheduled_time,
    )


def assert_current_attempt_snapshot(attempt: Attempt, snapshot: AttemptSnapshot) -> None:
    """Raise `StaleAttemptError` unless the snapshot shows this very attempt in progress."""
    reason = decide_staleness(attempt, snapshot)
    if reason is not None:
        raise StaleAttemptError(
            f"task {attempt.task_id} ({attempt.reference_name}) may not publish: {reason}",
            hint="nothing to do: the orchestrator's current attempt of this step goes on",
        )


def _differ(theirs: object | None, ours: object | None) -> bool:
    return theirs is not None and ours is not None and theirs != ours

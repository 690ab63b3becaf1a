"""One workflow instance as a frozen value, and how the port shows it.

Invariants: `tasks` is ordered by `seq`, which only grows; of the attempts of one reference name
the last is the current one, and all before it are over.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from perago.adapters.embedded.orchestrator.engine.definitions import (
    SimpleStep,
    StepType,
    TaskDefinition,
    TimeoutPolicy,
    WorkflowDefinition,
)
from perago.domain.attempt import Attempt, AttemptSnapshot, AttemptStatus
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.outcome import JsonObject
from perago.domain.workflow import PolledTask, TaskState, WorkflowState, WorkflowStatus

_TASK_IDS = uuid.UUID("6f2c1c34-2f0e-4b39-9d3c-0d7a6a1f6a52")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DONE = (AttemptStatus.COMPLETED, AttemptStatus.COMPLETED_WITH_ERRORS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """One attempt of one step.

    Of its moments: from `available_at` it may be polled, `updated_at` is the last sign of life
    (the lease runs from it), `wait_until` is when a WAIT ends.
    """

    task_id: TaskId
    reference_name: str
    task_name: str
    task_type: StepType
    seq: int
    status: AttemptStatus
    input: JsonObject
    scheduled_at: datetime
    available_at: datetime
    output: JsonObject = field(default_factory=dict)
    retry_count: int = 0
    retried_task_id: TaskId | None = None
    worker_id: WorkerId | None = None
    poll_count: int = 0
    reason: str | None = None
    started_at: datetime | None = None
    updated_at: datetime | None = None
    ended_at: datetime | None = None
    wait_until: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether it can still change."""
        return not self.status.is_terminal

    @property
    def is_done(self) -> bool:
        """Whether the step is behind us and the next may begin."""
        return self.status in DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """The whole state of one workflow instance."""

    id: WorkflowId
    definition: WorkflowDefinition
    input: JsonObject
    started_at: datetime
    status: WorkflowStatus = WorkflowStatus.RUNNING
    output: JsonObject = field(default_factory=dict)
    tasks: tuple[TaskRecord, ...] = ()
    ended_at: datetime | None = None
    reason: str | None = None

    def current(self) -> dict[str, TaskRecord]:
        """The last attempt of every step that has one, by reference name."""
        return {record.reference_name: record for record in self.tasks}

    def find(self, task_id: TaskId) -> TaskRecord | None:
        """The attempt of that id, if it is one of this instance."""
        return next((record for record in self.tasks if record.task_id == task_id), None)


def to_milliseconds(moment: datetime) -> int:
    """A moment as Conductor writes it."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def build_task_id(workflow_id: WorkflowId, seq: int) -> TaskId:
    """The id of the attempt with that number: a function of both, so the engine stays pure."""
    return TaskId(str(uuid.uuid5(_TASK_IDS, f"{workflow_id}/{seq}")))


def build_attempt(instance: Instance, record: TaskRecord) -> Attempt:
    """The identity of an attempt, as the port gives it."""
    return Attempt(
        workflow_id=instance.id,
        task_id=record.task_id,
        task_name=record.task_name,
        reference_name=record.reference_name,
        retry_count=record.retry_count,
        seq=record.seq,
        iteration=0,  # only loops have others, and they are not run here
        worker_id=record.worker_id,
        poll_count=record.poll_count,
        scheduled_time=to_milliseconds(record.scheduled_at),
        retried_task_id=record.retried_task_id,
        root_workflow_id=instance.id,  # there are no sub-workflows here
    )


def build_snapshot(instance: Instance, record: TaskRecord) -> AttemptSnapshot:
    """What `Orchestrator.snapshot` says of an attempt."""
    return AttemptSnapshot(
        status=record.status,
        workflow_id=instance.id,
        task_id=record.task_id,
        retry_count=record.retry_count,
        worker_id=record.worker_id,
        poll_count=record.poll_count,
        scheduled_time=to_milliseconds(record.scheduled_at),
        is_retried=any(other.retried_task_id == record.task_id for other in instance.tasks),
    )


def build_polled_task(instance: Instance, record: TaskRecord) -> PolledTask:
    """What a worker gets."""
    step = instance.definition.by_reference[record.reference_name]
    assert isinstance(step, SimpleStep)
    return PolledTask(
        attempt=build_attempt(instance, record),
        input=record.input,
        lease_seconds=float(step.definition.response_timeout_seconds),
        timeout_seconds=_seconds_left(step.definition, record),
    )


def _seconds_left(definition: TaskDefinition, record: TaskRecord) -> float | None:
    """What is left of the task's overall time, which runs from its first poll; None is no end."""
    if not definition.timeout_seconds or definition.timeout_policy is TimeoutPolicy.ALERT_ONLY:
        return None
    assert record.started_at is not None, "a poll begins it"
    assert record.updated_at is not None, "a poll updates it"
    used = (record.updated_at - record.started_at).total_seconds()
    return max(0.0, definition.timeout_seconds - used)


def build_workflow_state(instance: Instance) -> WorkflowState:
    """What `Orchestrator.workflow` says of an instance."""
    return WorkflowState(
        id=instance.id,
        name=instance.definition.name,
        version=instance.definition.version,
        status=instance.status,
        input=instance.input,
        output=instance.output,
        tasks=tuple(
            TaskState(
                attempt=build_attempt(instance, record),
                task_type=record.task_type.value,
                status=record.status,
                input=record.input,
                output=record.output,
                reason=record.reason,
                scheduled_at=record.scheduled_at,
                started_at=record.started_at,
                ended_at=record.ended_at,
            )
            for record in instance.tasks
        ),
        started_at=instance.started_at,
        ended_at=instance.ended_at,
        reason=instance.reason,
    )

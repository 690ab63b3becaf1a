"""Conductor's JSON as Perago's values.

Invariant: what cannot be read is an error, never a guess; the fence is built on it.
"""

from __future__ import annotations

from datetime import UTC, datetime

from perago.adapters.conductor.answers import Asked, explain_nonsense
from perago.adapters.conductor.api import as_object, as_objects
from perago.domain.attempt import Attempt, AttemptSnapshot, AttemptStatus
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.outcome import JsonObject, JsonValue
from perago.domain.workflow import PolledTask, TaskState, WorkflowState, WorkflowStatus


class Record:
    """One JSON object of the server, read field by field."""

    def __init__(self, fields: JsonObject, asked: Asked) -> None:
        self._fields = fields
        self._asked = asked

    def text(self, name: str) -> str:
        """A text that must be there."""
        found = self._fields.get(name)
        if not isinstance(found, str) or not found:
            raise explain_nonsense(self._asked, f"no {name}")
        return found

    def optional_text(self, name: str) -> str | None:
        """A text, or None where there is none."""
        found = self._fields.get(name)
        return found if isinstance(found, str) and found else None

    def number(self, name: str) -> int:
        """A whole number that must be there."""
        found = self._fields.get(name)
        if not isinstance(found, int):
            raise explain_nonsense(self._asked, f"no {name}")
        return found

    def object(self, name: str) -> JsonObject:
        """An object; empty where there is none."""
        found = self._fields.get(name)
        return found if isinstance(found, dict) else {}

    def objects(self, name: str) -> list[JsonObject]:
        """A list of objects that must be there."""
        return as_objects(self._fields.get(name), self._asked)

    def moment(self, name: str) -> datetime | None:
        """A moment in milliseconds; Conductor writes 0 for never."""
        found = self._fields.get(name)
        if not isinstance(found, int) or found <= 0:
            return None
        return datetime.fromtimestamp(found / 1000, UTC)

    def attempt_status(self) -> AttemptStatus:
        """A task's status."""
        try:
            return AttemptStatus(self.text("status"))
        except ValueError as error:
            raise explain_nonsense(self._asked, str(error)) from None

    def workflow_status(self) -> WorkflowStatus:
        """An instance's status."""
        try:
            return WorkflowStatus(self.text("status"))
        except ValueError as error:
            raise explain_nonsense(self._asked, str(error)) from None


def build_attempt(record: Record) -> Attempt:
    """Who a task is."""
    worker = record.optional_text("workerId")
    return Attempt(
        workflow_id=WorkflowId(record.text("workflowInstanceId")),
        task_id=TaskId(record.text("taskId")),
        task_name=record.text("taskDefName"),
        reference_name=record.text("referenceTaskName"),
        retry_count=record.number("retryCount"),
        seq=record.number("seq"),
        iteration=record.number("iteration"),
        worker_id=WorkerId(worker) if worker is not None else None,
        poll_count=record.number("pollCount"),
    )


def build_polled_task(found: JsonObject, asked: Asked) -> PolledTask:
    """What a poll handed out."""
    record = Record(found, asked)
    definition = record.object("taskDefinition") or Record(
        record.object("workflowTask"), asked
    ).object("taskDefinition")
    return PolledTask(
        attempt=build_attempt(record),
        input=record.object("inputData"),
        lease_seconds=float(record.number("responseTimeoutSeconds")),
        timeout_seconds=_seconds_left(record, definition),
    )


def _seconds_left(record: Record, definition: JsonObject) -> float | None:
    """What is left of the task's overall time, which runs from its first poll; None is no end."""
    timeout = definition.get("timeoutSeconds")
    if not isinstance(timeout, int) or timeout <= 0:
        return None
    if definition.get("timeoutPolicy") == "ALERT_ONLY":  # the server only takes note of it
        return None
    # Both by the server's clock: the first poll, and this one, which updated the task.
    first, now = record.moment("startTime"), record.moment("updateTime")
    used = (now - first).total_seconds() if first is not None and now is not None else 0.0
    return max(0.0, timeout - max(0.0, used))


def build_snapshot(workflow: JsonObject, task_id: TaskId, asked: Asked) -> AttemptSnapshot | None:
    """What one reading of a whole instance says of a task; None when it is not among its tasks.

    A heartbeat that crosses a time-out can put the timed-out task back IN_PROGRESS beside its
    retry, and a task can be left so in an instance that is over. Both are called what they were.
    """
    whole = Record(workflow, asked)
    tasks = [Record(found, asked) for found in whole.objects("tasks")]
    ours = next((task for task in tasks if task.text("taskId") == task_id), None)
    if ours is None:
        return None
    attempt, status = build_attempt(ours), ours.attempt_status()
    if not status.is_terminal:
        others = (build_attempt(task) for task in tasks)
        if any(_follows(other, attempt) for other in others):
            status = AttemptStatus.TIMED_OUT
        elif whole.workflow_status().is_terminal:
            status = AttemptStatus.CANCELED
    return AttemptSnapshot(
        status=status,
        workflow_id=WorkflowId(whole.text("workflowId")),
        task_id=attempt.task_id,
        retry_count=attempt.retry_count,
        worker_id=attempt.worker_id,
        poll_count=attempt.poll_count,
    )


def build_workflow_state(workflow: JsonObject, asked: Asked) -> WorkflowState:
    """One instance with all its attempts."""
    whole = Record(workflow, asked)
    started = whole.moment("startTime") or whole.moment("createTime")
    if started is None:
        raise explain_nonsense(asked, "no startTime")
    tasks = [_build_task_state(Record(found, asked), asked) for found in whole.objects("tasks")]
    return WorkflowState(
        id=WorkflowId(whole.text("workflowId")),
        name=whole.text("workflowName"),
        version=whole.number("workflowVersion"),
        status=whole.workflow_status(),
        input=whole.object("input"),
        output=whole.object("output"),
        tasks=tuple(sorted(tasks, key=lambda task: task.attempt.seq)),
        started_at=started,
        ended_at=whole.moment("endTime"),
        reason=whole.optional_text("reasonForIncompletion"),
    )


def _build_task_state(record: Record, asked: Asked) -> TaskState:
    # A SIMPLE task's own `taskType` is its name.
    kind: JsonValue = as_object(record.object("workflowTask"), asked).get("type")
    return TaskState(
        attempt=build_attempt(record),
        task_type=kind if isinstance(kind, str) else record.text("taskType"),
        status=record.attempt_status(),
        input=record.object("inputData"),
        output=record.object("outputData"),
        reason=record.optional_text("reasonForIncompletion"),
        scheduled_at=record.moment("scheduledTime"),
        started_at=record.moment("startTime"),
        ended_at=record.moment("endTime"),
    )


def _follows(other: Attempt, attempt: Attempt) -> bool:
    """Whether it is a later task of the same step."""
    return (
        other.task_id != attempt.task_id
        and other.logical_task == attempt.logical_task
        and (other.seq > attempt.seq or other.retry_count > attempt.retry_count)
    )

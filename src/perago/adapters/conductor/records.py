"""Conductor's JSON as Perago's values.

Invariant: what cannot be read is an error, never a guess; the fence is built on it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from perago.adapters.conductor.answers import Asked, explain_nonsense
from perago.adapters.conductor.api import as_object, as_objects
from perago.domain.attempt import Attempt, AttemptSnapshot, AttemptStatus
from perago.domain.errors import OrchestratorError
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.json_limits import (
    MAX_NAME_CHARACTERS,
    build_unreadable,
    explain_unusable_json,
)
from perago.domain.outcome import JsonObject
from perago.domain.workflow import TaskState, WorkflowState, WorkflowStatus

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_PATH = 200
_BEYOND_LONG = 2**63


class Record:
    """One JSON object of the server, read field by field; each raises where it cannot be right."""

    def __init__(self, fields: JsonObject, asked: Asked) -> None:
        self._fields = fields
        self._asked = asked

    def text(self, name: str) -> str:
        """A name or an id, which must be there."""
        found = self._fields.get(name)
        if not isinstance(found, str) or not found:
            raise self._nonsense(f"no {name}")
        if len(found) > MAX_NAME_CHARACTERS or explain_unusable_json(found) is not None:
            raise self._nonsense(f"{name} is no name")
        return found

    def optional_text(self, name: str) -> str | None:
        """A text, or None where there is none."""
        found = self._fields.get(name)
        if found is not None and not isinstance(found, str):
            raise self._nonsense(f"{name} is no text")
        # It is going to be shown.
        return found.encode("utf-8", "backslashreplace").decode() if found else None

    def number(self, name: str) -> int:
        """A whole number that must be there."""
        found = self.optional_number(name)
        if found is None:
            raise self._nonsense(f"no {name}")
        return found

    def optional_number(self, name: str) -> int | None:
        """A whole number of 64 bits, or None where there is none."""
        found = self._fields.get(name)
        if found is None:
            return None
        # True is an int to Python.
        if not isinstance(found, int) or isinstance(found, bool) or abs(found) >= _BEYOND_LONG:
            raise self._nonsense(f"{name} is no whole number that a server has")
        return found

    def flag(self, name: str) -> bool:
        """True or false; false where there is none."""
        found = self._fields.get(name)
        if found is not None and not isinstance(found, bool):
            raise self._nonsense(f"{name} is neither true nor false")
        return bool(found)

    def part(self, name: str) -> Record:
        """An object inside; empty where there is none."""
        found = self._fields.get(name)
        return Record({} if found is None else as_object(found, self._asked), self._asked)

    def __bool__(self) -> bool:
        return bool(self._fields)

    def payload(self, name: str, stored_as: str) -> JsonObject:
        """An input or an output; where it cannot be used, an object that says so in its place."""
        path = self.optional_text(stored_as)
        if path is not None:
            return build_unreadable(
                f"it is over the size that the server keeps with a task, and is in the server's "
                f"external storage ({stored_as} {path[:_LONGEST_PATH]}), which is not read"
            )
        found = self._fields.get(name)
        if found is None:
            return {}
        problem = explain_unusable_json(found)
        if problem is None and not isinstance(found, dict):
            problem = "it is no object"
        return build_unreadable(problem) if problem is not None else as_object(found, self._asked)

    def objects(self, name: str) -> list[JsonObject]:
        """A list of objects that must be there."""
        return as_objects(self._fields.get(name), self._asked)

    def moment(self, name: str) -> datetime | None:
        """A moment in milliseconds; Conductor writes 0 for never."""
        found = self.optional_number(name)
        if found is None or found <= 0:
            return None
        try:
            return _EPOCH + timedelta(milliseconds=found)
        except OverflowError:
            raise self._nonsense(f"{name} is after the year 9999") from None

    def attempt_status(self) -> AttemptStatus:
        """A task's status."""
        try:
            return AttemptStatus(self.text("status"))
        except ValueError as error:
            raise self._nonsense(str(error)) from None

    def workflow_status(self) -> WorkflowStatus:
        """An instance's status."""
        try:
            return WorkflowStatus(self.text("status"))
        except ValueError as error:
            raise self._nonsense(str(error)) from None

    def _nonsense(self, reason: str) -> OrchestratorError:
        return explain_nonsense(self._asked, reason)


def build_attempt(record: Record) -> Attempt:
    """Who a task is."""
    worker, retried = record.optional_text("workerId"), record.optional_text("retriedTaskId")
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
        scheduled_time=record.optional_number("scheduledTime"),
        retried_task_id=TaskId(retried) if retried is not None else None,
    )


def build_snapshot(workflow: JsonObject, task_id: TaskId, asked: Asked) -> AttemptSnapshot | None:
    """What one reading of a whole instance says of a task; None when it is not among its tasks.

    A heartbeat that crosses a time-out can put the timed-out task back IN_PROGRESS beside its
    retry, and a task can be left so in an instance that is over. Both are called what they were.
    A task that the server itself calls retried was queued again by a rerun from a later step.
    """
    whole = Record(workflow, asked)
    tasks = [Record(found, asked) for found in whole.objects("tasks")]
    ours = next((task for task in tasks if task.text("taskId") == task_id), None)
    if ours is None:
        return None
    attempt, status = build_attempt(ours), ours.attempt_status()
    is_retried = ours.flag("retried")
    if not status.is_terminal:
        others = (build_attempt(task) for task in tasks)
        if not is_retried and any(_follows(other, attempt) for other in others):
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
        scheduled_time=attempt.scheduled_time,
        is_retried=is_retried,
    )


def build_workflow_state(workflow: JsonObject, asked: Asked) -> WorkflowState:
    """One instance with all its attempts."""
    whole = Record(workflow, asked)
    started = whole.moment("startTime") or whole.moment("createTime")
    if started is None:
        raise explain_nonsense(asked, "no startTime")
    tasks = [_build_task_state(Record(found, asked)) for found in whole.objects("tasks")]
    return WorkflowState(
        id=WorkflowId(whole.text("workflowId")),
        name=whole.text("workflowName"),
        version=whole.number("workflowVersion"),
        status=whole.workflow_status(),
        input=whole.payload("input", "externalInputPayloadStoragePath"),
        output=whole.payload("output", "externalOutputPayloadStoragePath"),
        tasks=tuple(sorted(tasks, key=lambda task: task.attempt.seq)),
        started_at=started,
        ended_at=whole.moment("endTime"),
        reason=whole.optional_text("reasonForIncompletion"),
    )


def _build_task_state(record: Record) -> TaskState:
    # A SIMPLE task's own `taskType` is its name.
    kind = record.part("workflowTask").optional_text("type")
    return TaskState(
        attempt=build_attempt(record),
        task_type=kind or record.text("taskType"),
        status=record.attempt_status(),
        input=record.payload("inputData", "externalInputPayloadStoragePath"),
        output=record.payload("outputData", "externalOutputPayloadStoragePath"),
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

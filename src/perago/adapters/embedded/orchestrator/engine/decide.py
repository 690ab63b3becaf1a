"""The engine: `(instance, event, now) -> instance`.

Invariants: an instance that is over never changes again; an attempt that is over never changes
again, except that a failed optional one becomes COMPLETED_WITH_ERRORS in the same decision; of a
logical task at most one attempt is open; `seq` grows with every attempt; a retry is a new task id.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from perago.adapters.embedded.orchestrator.engine.definitions import WorkflowDefinition
from perago.adapters.embedded.orchestrator.engine.instance import Instance, TaskRecord
from perago.adapters.embedded.orchestrator.engine.rules import end_workflow, put_record, settle
from perago.domain.attempt import AttemptStatus
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.outcome import Completed, Failed, JsonObject, Outcome, TerminalFailure
from perago.domain.workflow import WorkflowStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """Nothing but the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOut:
    """A worker takes a scheduled attempt."""

    task_id: TaskId
    worker_id: WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A worker asks for the lease to start anew."""

    task_id: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class HandBack:
    """A worker gives back an attempt that it has not begun; a None is not compared."""

    task_id: TaskId
    worker_id: WorkerId | None
    poll_count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A worker, or a person, says how an attempt ended."""

    task_id: TaskId
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminate:
    """Somebody ends the instance."""

    reason: str


Event = TimePassed | HandOut | Heartbeat | HandBack | Report | Terminate


def start_instance(
    workflow_id: WorkflowId,
    definition: WorkflowDefinition,
    workflow_input: JsonObject,
    now: datetime,
) -> Instance:
    """A new instance with its first steps scheduled; the inputTemplate fills missing inputs."""
    instance = Instance(
        id=workflow_id,
        definition=definition,
        input=definition.input_template | workflow_input,
        started_at=now,
    )
    return settle(instance, now)


def decide(instance: Instance, event: Event, now: datetime) -> Instance:
    """The instance after the event.

    Time comes first: what has timed out by now is out before the event is looked at, so a late
    report or heartbeat meets an attempt that is over, and is ignored.
    """
    instance = settle(instance, now)
    if instance.status.is_terminal:
        return instance
    return settle(_apply(instance, event, now), now)


def _apply(instance: Instance, event: Event, now: datetime) -> Instance:
    match event:
        case TimePassed():
            return instance
        case Terminate(reason=reason):
            return end_workflow(instance, WorkflowStatus.TERMINATED, reason, now)
        case HandOut() | Heartbeat() | HandBack() | Report():
            record = instance.find(event.task_id)
            if record is None or not record.is_open:
                return instance
            return put_record(instance, _change(record, event, now))
        case _:
            assert_never(event)


def _change(
    record: TaskRecord, event: HandOut | Heartbeat | HandBack | Report, now: datetime
) -> TaskRecord:
    """An open attempt after an event about it; one that does not fit its status changes nothing."""
    match event:
        case HandOut(worker_id=worker_id):
            if record.status is not AttemptStatus.SCHEDULED or now < record.available_at:
                return record
            return replace(
                record,
                status=AttemptStatus.IN_PROGRESS,
                worker_id=worker_id,
                poll_count=record.poll_count + 1,
                # One that was handed back goes on: its overall time-out runs from the first poll.
                started_at=record.started_at or now,
                updated_at=now,
            )
        case Heartbeat():
            if record.status is not AttemptStatus.IN_PROGRESS:
                return record
            return replace(record, updated_at=now)
        case HandBack():
            if record.status is not AttemptStatus.IN_PROGRESS or not _holds(record, event):
                return record
            return replace(record, status=AttemptStatus.SCHEDULED, worker_id=None, available_at=now)
        case Report(outcome=outcome):
            return _end(record, outcome, now)
        case _:
            assert_never(event)


def _holds(record: TaskRecord, event: HandBack) -> bool:
    """Whether it is the worker that polled last; nobody holds a HUMAN or a WAIT."""
    return (
        record.worker_id is not None
        and event.worker_id in (None, record.worker_id)
        and event.poll_count in (None, record.poll_count)
    )


def _end(record: TaskRecord, outcome: Outcome, now: datetime) -> TaskRecord:
    ended = replace(record, status=outcome.status, updated_at=now, ended_at=now)
    match outcome:
        case Completed(output=output):
            return replace(ended, output=output)
        case Failed(reason=reason) | TerminalFailure(reason=reason):
            return replace(ended, reason=reason)
        case _:
            assert_never(outcome)

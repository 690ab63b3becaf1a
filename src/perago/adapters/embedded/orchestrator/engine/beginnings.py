"""How the next attempt of a step begins."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from perago.adapters.embedded.orchestrator.engine.definitions import (
    ForkStep,
    HumanStep,
    JoinStep,
    SimpleStep,
    Step,
    WaitStep,
)
from perago.adapters.embedded.orchestrator.engine.inputs import build_task_input
from perago.adapters.embedded.orchestrator.engine.instance import (
    Instance,
    TaskRecord,
    build_task_id,
)
from perago.adapters.embedded.orchestrator.engine.waits import decide_wait_end
from perago.domain.attempt import AttemptStatus
from perago.domain.outcome import JsonObject


def build_record(instance: Instance, step: Step, now: datetime) -> TaskRecord:
    """The first state of a step's next attempt."""
    seq = instance.tasks[-1].seq + 1 if instance.tasks else 1
    task_input: JsonObject = {}
    problem = None
    if isinstance(step, SimpleStep | HumanStep | WaitStep):
        try:
            task_input = build_task_input(instance, step)
        except ValueError as error:
            problem = f"its input cannot be used: {error}"
    record = TaskRecord(
        task_id=build_task_id(instance.id, seq),
        reference_name=step.reference_name,
        task_name=step.name,
        task_type=step.type,
        seq=seq,
        status=AttemptStatus.IN_PROGRESS,
        input=task_input,
        scheduled_at=now,
        available_at=now,
        started_at=now,
        updated_at=now,
    )
    if problem is not None:
        return refuse_record(record, problem, now)
    match step:
        case SimpleStep():
            return replace(
                record,
                status=AttemptStatus.SCHEDULED,
                available_at=now + timedelta(seconds=step.start_delay_seconds),
                started_at=None,
                updated_at=None,
            )
        case ForkStep():
            return replace(record, status=AttemptStatus.COMPLETED, ended_at=now)
        case WaitStep():
            return _begin_wait(record, now)
        case HumanStep() | JoinStep():
            return record
        case _:
            assert_never(step)


def _begin_wait(record: TaskRecord, now: datetime) -> TaskRecord:
    try:
        return replace(record, wait_until=decide_wait_end(record.input, now))
    except ValueError as error:
        return refuse_record(record, str(error), now)


def refuse_record(record: TaskRecord, reason: str, now: datetime) -> TaskRecord:
    """It would be the same with every retry."""
    status = AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    return replace(record, status=status, reason=reason, ended_at=now)

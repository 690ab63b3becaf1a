"""The rules by which an instance moves on its own, applied until none has anything to do.

Each rule takes an instance that is not over and returns it changed, or the very same object when
it has nothing to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from perago.adapters.embedded.orchestrator.engine.beginnings import build_record, refuse_record
from perago.adapters.embedded.orchestrator.engine.deadlines import (
    find_timeout,
    find_workflow_deadline,
)
from perago.adapters.embedded.orchestrator.engine.definitions import (
    ForkStep,
    JoinStep,
    RetryLogic,
    SimpleStep,
    Step,
    TaskDefinition,
)
from perago.adapters.embedded.orchestrator.engine.inputs import (
    build_join_output,
    build_workflow_output,
)
from perago.adapters.embedded.orchestrator.engine.instance import (
    Instance,
    TaskRecord,
)
from perago.domain.attempt import AttemptStatus
from perago.domain.workflow import WorkflowStatus

Rule = Callable[[Instance, datetime], Instance]

_RETRIABLE = (AttemptStatus.FAILED, AttemptStatus.TIMED_OUT)
_LONGEST_DELAY_SECONDS = 2**31 - 1


def settle(instance: Instance, now: datetime) -> Instance:
    """The instance when nothing more follows from its state and the time."""
    while not instance.status.is_terminal:
        after = _apply_first_rule(instance, now)
        if after is instance:
            break
        instance = after
    return instance


def put_record(instance: Instance, record: TaskRecord) -> Instance:
    """The instance with one attempt replaced by its newer state."""
    return replace(
        instance,
        tasks=tuple(record if old.seq == record.seq else old for old in instance.tasks),
    )


def end_workflow(
    instance: Instance,
    status: WorkflowStatus,
    reason: str | None,
    now: datetime,
    *,
    cause: TaskRecord | None = None,
) -> Instance:
    """The instance, over: what is open is CANCELED, the output is what there is so far."""
    last = cause or (instance.tasks[-1] if instance.tasks else None)
    return replace(
        instance,
        status=status,
        reason=reason,
        output=build_workflow_output(instance, last),
        ended_at=now,
        tasks=tuple(
            replace(record, status=AttemptStatus.CANCELED, ended_at=now)
            if record.is_open
            else record
            for record in instance.tasks
        ),
    )


def plan_retry_delay(definition: TaskDefinition, retry_count: int) -> timedelta:
    """How long the retry of an attempt with that retry count waits, by Conductor's formulas."""
    base = definition.retry_delay_seconds
    match definition.retry_logic:
        case RetryLogic.FIXED:
            return timedelta(seconds=base)
        case RetryLogic.LINEAR_BACKOFF:
            delay = base * definition.backoff_scale_factor * (retry_count + 1)
        case RetryLogic.EXPONENTIAL_BACKOFF:
            delay = base * 2**retry_count
        case _:
            assert_never(definition.retry_logic)
    limit = definition.max_retry_delay_seconds or _LONGEST_DELAY_SECONDS
    return timedelta(seconds=min(delay, limit))


def _apply_first_rule(instance: Instance, now: datetime) -> Instance:
    for rule in _RULES:
        after = rule(instance, now)
        if after is not instance:
            return after
    return instance


def _time_out_workflow(instance: Instance, now: datetime) -> Instance:
    deadline = find_workflow_deadline(instance)
    if deadline is None or now < deadline:
        return instance
    reason = f"not over after {instance.definition.timeout_seconds} s (timeoutSeconds)"
    return end_workflow(instance, WorkflowStatus.TIMED_OUT, reason, now)


def _time_out_task(instance: Instance, now: datetime) -> Instance:
    for record in instance.tasks:
        step = instance.definition.by_reference[record.reference_name]
        if not record.is_open or not isinstance(step, SimpleStep):
            continue
        timeout = find_timeout(record, step, now)
        if timeout is None:
            continue
        out = replace(record, status=AttemptStatus.TIMED_OUT, reason=timeout.reason, ended_at=now)
        after = put_record(instance, out)
        if timeout.ends_workflow:
            reason = _explain(out)
            return end_workflow(after, WorkflowStatus.TIMED_OUT, reason, now, cause=out)
        return after
    return instance


def _end_wait(instance: Instance, now: datetime) -> Instance:
    for record in instance.tasks:
        if record.is_open and record.wait_until is not None and record.wait_until <= now:
            return put_record(
                instance, replace(record, status=AttemptStatus.COMPLETED, ended_at=now)
            )
    return instance


def _join(instance: Instance, now: datetime) -> Instance:
    current = instance.current()
    for record in current.values():
        step = instance.definition.by_reference[record.reference_name]
        if not isinstance(step, JoinStep) or not record.is_open:
            continue
        if all(name in current and current[name].is_done for name in step.join_on):
            return put_record(instance, _end_join(record, step, current, now))
    return instance


def _end_join(
    record: TaskRecord, step: JoinStep, current: dict[str, TaskRecord], now: datetime
) -> TaskRecord:
    try:
        output = build_join_output({name: current[name].output for name in step.join_on})
    except ValueError as error:
        return refuse_record(record, f"its output cannot be kept: {error}", now)
    return replace(record, status=AttemptStatus.COMPLETED, output=output, ended_at=now)


def _follow_failure(instance: Instance, now: datetime) -> Instance:
    """Retry a failed step, pass over an optional one, or fail the workflow."""
    for record in instance.current().values():
        if record.is_open or record.is_done:
            continue
        step = instance.definition.by_reference[record.reference_name]
        if isinstance(step, SimpleStep) and _may_retry(record, step):
            return _retry(instance, record, step, now)
        if step.optional:
            return put_record(instance, replace(record, status=AttemptStatus.COMPLETED_WITH_ERRORS))
        timed_out = record.status is AttemptStatus.TIMED_OUT
        status = WorkflowStatus.TIMED_OUT if timed_out else WorkflowStatus.FAILED
        return end_workflow(instance, status, _explain(record), now, cause=record)
    return instance


def _schedule_next(instance: Instance, now: datetime) -> Instance:
    for step in list(_find_ready(instance.definition.steps, instance.current())):
        instance = _add_record(instance, build_record(instance, step, now))
    return instance


def _complete(instance: Instance, now: datetime) -> Instance:
    current = instance.current()
    if all(name in current and current[name].is_done for name in instance.definition.by_reference):
        return end_workflow(instance, WorkflowStatus.COMPLETED, None, now)
    return instance


# Time first, then what follows from it, then what comes next.
_RULES: tuple[Rule, ...] = (
    _time_out_workflow,
    _time_out_task,
    _end_wait,
    _follow_failure,
    _join,
    _schedule_next,
    _complete,
)


def _find_ready(steps: Sequence[Step], current: dict[str, TaskRecord]) -> Iterator[Step]:
    """The steps of a sequence, and of the branches it has reached, that can be scheduled now."""
    for step in steps:
        record = current.get(step.reference_name)
        if record is None:
            yield step
            return
        if isinstance(step, ForkStep):
            for branch in step.branches:
                yield from _find_ready(branch, current)
        if not record.is_done:
            return


def _may_retry(record: TaskRecord, step: SimpleStep) -> bool:
    return record.status in _RETRIABLE and record.retry_count < step.max_retries


def _retry(instance: Instance, failed: TaskRecord, step: SimpleStep, now: datetime) -> Instance:
    delay = plan_retry_delay(step.definition, failed.retry_count)
    retry = replace(
        build_record(instance, step, now),
        available_at=now + delay,
        retry_count=failed.retry_count + 1,
        retried_task_id=failed.task_id,
    )
    return _add_record(instance, retry)


def _add_record(instance: Instance, record: TaskRecord) -> Instance:
    return replace(instance, tasks=(*instance.tasks, record))


def _explain(record: TaskRecord) -> str:
    return f"task {record.reference_name} ({record.task_id}) is {record.status}: {record.reason}"

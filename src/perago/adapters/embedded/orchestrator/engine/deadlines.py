"""Which time-outs have passed, and when the next one will.

Invariant: of a settled instance, `plan_wake_up` is never in the past; so nobody wakes up for
nothing, and whoever sleeps until then misses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from perago.adapters.embedded.orchestrator.engine.definitions import (
    SimpleStep,
    TaskDefinition,
    TimeoutPolicy,
)
from perago.adapters.embedded.orchestrator.engine.instance import Instance, TaskRecord
from perago.domain.attempt import AttemptStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeout:
    """A moment from which an attempt is timed out, and what to say of it."""

    at: datetime
    reason: str
    ends_workflow: bool


def find_timeout(record: TaskRecord, step: SimpleStep, now: datetime) -> Timeout | None:
    """The time-out of an open attempt that has passed, if one has; the earliest of several."""
    passed = [timeout for timeout in _timeouts(record, step.definition) if timeout.at <= now]
    return min(passed, key=lambda timeout: timeout.at, default=None)


def find_workflow_deadline(instance: Instance) -> datetime | None:
    """When the instance as a whole times out."""
    definition = instance.definition
    if not definition.timeout_seconds or definition.timeout_policy is TimeoutPolicy.ALERT_ONLY:
        return None
    return instance.started_at + timedelta(seconds=definition.timeout_seconds)


def plan_wake_up(instance: Instance) -> datetime | None:
    """The next moment at which time alone changes this instance; None is never."""
    if instance.status.is_terminal:
        return None
    return min(_moments(instance), default=None)


def _moments(instance: Instance) -> Iterator[datetime]:
    deadline = find_workflow_deadline(instance)
    if deadline is not None:
        yield deadline
    for record in instance.tasks:
        if not record.is_open:
            continue
        if record.wait_until is not None:
            yield record.wait_until
        step = instance.definition.by_reference[record.reference_name]
        if isinstance(step, SimpleStep):
            yield from (timeout.at for timeout in _timeouts(record, step.definition))


def _timeouts(record: TaskRecord, definition: TaskDefinition) -> Iterator[Timeout]:
    """Every time-out that an open attempt is under, as its TaskDef says.

    The response time-out always leads to a retry; the others do what the policy says, and under
    ALERT_ONLY, nothing.
    """
    policy = definition.timeout_policy
    ends_workflow = policy is TimeoutPolicy.TIME_OUT_WF
    if record.status is AttemptStatus.SCHEDULED:
        if definition.poll_timeout_seconds and policy is not TimeoutPolicy.ALERT_ONLY:
            yield Timeout(
                at=record.available_at + timedelta(seconds=definition.poll_timeout_seconds),
                reason=f"no worker polled it for {definition.poll_timeout_seconds} s "
                "(pollTimeoutSeconds)",
                ends_workflow=ends_workflow,
            )
    else:
        assert record.updated_at is not None
        yield Timeout(
            at=record.updated_at + timedelta(seconds=definition.response_timeout_seconds),
            reason=f"no heartbeat or report for {definition.response_timeout_seconds} s "
            "(responseTimeoutSeconds)",
            ends_workflow=False,
        )
    if record.started_at is None:
        return
    # Also while it is SCHEDULED again, having been handed back.
    if definition.timeout_seconds and policy is not TimeoutPolicy.ALERT_ONLY:
        yield Timeout(
            at=record.started_at + timedelta(seconds=definition.timeout_seconds),
            reason=f"not over after {definition.timeout_seconds} s (timeoutSeconds)",
            ends_workflow=ends_workflow,
        )

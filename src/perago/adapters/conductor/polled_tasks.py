"""What a poll handed out, task by task.

Invariant: a task costs no other one. The server counts all of an answer as begun, so what a task
holds never ends the reading of its batch: one whose identity can be read is given to the worker,
which reports it, and one that cannot be told from another is left to its time-out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from perago.adapters.conductor.answers import Asked, explain_nonsense
from perago.adapters.conductor.records import Record, build_attempt
from perago.domain.attempt import Attempt
from perago.domain.errors import OrchestratorError
from perago.domain.json_limits import (
    find_unreadable,
    read_json,
    read_members,
    split_json,
)
from perago.domain.outcome import JsonObject
from perago.domain.workflow import PolledTask

_log = logging.getLogger(__name__)

_REFUSED_LEASE_SECONDS = 60.0
"""The lease of a task that does not say its own: it is reported at once."""
_LONGEST_SECONDS = 2**31 - 1
"""What the server can keep."""


def read_polled_tasks(answer: bytes, asked: Asked) -> list[PolledTask]:
    """The tasks of one answer; an error where it holds no tasks at all."""
    if not answer:
        return []
    polled = []
    for found, unread in _read_objects(answer, asked):
        try:
            polled.append(build_polled_task(found, asked, unread))
        except OrchestratorError as error:
            # Without an identity nothing can be reported of it.
            _log.warning("a task is left to its time-out: %s", error.message)
    return polled


def build_polled_task(
    found: JsonObject, asked: Asked, unread: Mapping[str, str] | None = None
) -> PolledTask:
    """One task; where its input or its limits cannot be used, with the reason."""
    record = Record(found, asked)
    attempt = build_attempt(record)
    try:
        return _build(record, attempt, unread or {})
    except OrchestratorError as error:
        return _refuse(attempt, error.message)


def _build(record: Record, attempt: Attempt, unread: Mapping[str, str]) -> PolledTask:
    lease = record.number("responseTimeoutSeconds")
    if not 0 <= lease <= _LONGEST_SECONDS:
        return _refuse(attempt, f"its responseTimeoutSeconds is {lease:.3g}")
    if "inputData" in unread:
        return _refuse(attempt, f"its input cannot be read: {unread['inputData']}", lease)
    given = record.payload("inputData", "externalInputPayloadStoragePath")
    reason = find_unreadable(given)
    if reason is not None:
        return _refuse(attempt, f"its input cannot be used: {reason}", lease)
    if record.flag("retried"):
        # A rerun from a later step queues it again, and waits for it: it may only fail.
        return _refuse(attempt, "a later attempt of its step has taken its place", lease)
    return PolledTask(
        attempt=attempt,
        input=given,
        lease_seconds=float(lease),
        timeout_seconds=_seconds_left(record),
    )


def _refuse(
    attempt: Attempt, reason: str, lease_seconds: float = _REFUSED_LEASE_SECONDS
) -> PolledTask:
    return PolledTask(attempt=attempt, input={}, lease_seconds=float(lease_seconds), refusal=reason)


def _read_objects(answer: bytes, asked: Asked) -> Iterator[tuple[JsonObject, Mapping[str, str]]]:
    """Each task with what of it cannot be read."""
    try:
        found = read_json(answer)
    except ValueError as error:
        items = split_json(answer) if answer.lstrip().startswith(b"[") else []
        if not items:
            raise explain_nonsense(asked, str(error)) from None
        _log.warning("a poll's answer is broken (%s); of it %d tasks are there", error, len(items))
        for item in items:
            yield read_members(item)
        return
    if not isinstance(found, list):
        raise explain_nonsense(asked, "no list")
    for one in found:
        if isinstance(one, dict):
            yield one, {}
        else:
            _log.warning("a poll's answer holds a %s among its tasks", type(one).__name__)


def _seconds_left(record: Record) -> float | None:
    """What is left of the task's overall time, which runs from its first poll; None is no end."""
    definition = record.part("taskDefinition") or record.part("workflowTask").part("taskDefinition")
    timeout = definition.optional_number("timeoutSeconds")
    if timeout is None or timeout <= 0:
        return None
    if definition.optional_text("timeoutPolicy") == "ALERT_ONLY":  # the server only notes it
        return None
    # Both by the server's clock: the first poll, and this one, which updated the task.
    first, now = record.moment("startTime"), record.moment("updateTime")
    used = (now - first).total_seconds() if first is not None and now is not None else 0.0
    return max(0.0, min(timeout, _LONGEST_SECONDS) - max(0.0, used))

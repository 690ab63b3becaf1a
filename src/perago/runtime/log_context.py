"""Whose work a log line is about.

An executor runs one attempt at a time, so there it holds for the whole process: threads that move
objects, and threads of the body, log as the attempt. The supervisor speaks of many attempts: there
it holds for a block of code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from perago.domain.attempt import Attempt
from perago.domain.execution import Execution

Fields = Mapping[str, str | int]

ATTEMPT_FIELDS = (
    "workflow",
    "task",
    "task_name",
    "reference",
    "retry",
    "execution",
    "input_ref",
    "staging_branch",
)
"""The names of the fields that a line about an attempt has, in their order."""

_NOTHING: Fields = {}
_of_block: ContextVar[Fields] = ContextVar("perago_log_fields", default=_NOTHING)


class _Process:
    fields: Fields = _NOTHING


def fields_of(subject: Execution | Attempt) -> Fields:
    """What each line about an execution, or an attempt that has none here, says of it; what it
    does not have is left out.
    """
    attempt = subject if isinstance(subject, Attempt) else subject.attempt
    fields: dict[str, str | int] = {
        "workflow": attempt.workflow_id,
        "task": attempt.task_id,
        "task_name": attempt.task_name,
        "reference": attempt.reference_name,
        "retry": attempt.retry_count,
    }
    return fields if isinstance(subject, Attempt) else fields | _fields_of_execution(subject)


def _fields_of_execution(execution: Execution) -> dict[str, str | int]:
    fields: dict[str, str | int] = {"execution": execution.execution_id}
    if execution.input_ref is not None:
        fields["input_ref"] = execution.input_ref
    branch = execution.staging_branch
    if branch is not None:
        fields["staging_branch"] = branch
    return fields


def current_fields() -> Fields:
    """The fields that a line logged here and now gets."""
    return _of_block.get() or _Process.fields


@contextmanager
def about(subject: Execution | Attempt) -> Iterator[None]:
    """What is logged in this block, by this thread, is about this execution or attempt."""
    token = _of_block.set(fields_of(subject))
    try:
        yield
    finally:
        _of_block.reset(token)


@contextmanager
def process_is_about(execution: Execution) -> Iterator[None]:
    """Until the end of the block, whatever this process logs is about this execution."""
    _Process.fields = fields_of(execution)
    try:
        yield
    finally:
        _Process.fields = _NOTHING

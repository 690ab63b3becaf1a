"""Laws of staging names, with any text as identifiers."""

import re

from hypothesis import given

from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId
from perago.domain.staging import (
    STAGING_PREFIX,
    StagingName,
    build_staging_name,
    escape_label,
    parse_staging_name,
)
from perago.testing.strategies import attempts, execution_ids, wild_text

LEGAL = re.compile(r"\w[-\w]*", re.ASCII)


@given(attempts(), execution_ids())
def test_names_are_legal(attempt: Attempt, execution_id: ExecutionId) -> None:
    name = build_staging_name(attempt, execution_id)
    assert LEGAL.fullmatch(name)
    assert name.startswith(STAGING_PREFIX)


@given(attempts(), execution_ids())
def test_names_read_back(attempt: Attempt, execution_id: ExecutionId) -> None:
    assert parse_staging_name(build_staging_name(attempt, execution_id)) == StagingName(
        task_id=attempt.task_id, retry_count=attempt.retry_count, execution_id=execution_id
    )


@given(attempts(), attempts(), execution_ids(), execution_ids())
def test_two_executions_never_share_a_name(
    attempt: Attempt, other: Attempt, execution_id: ExecutionId, other_execution: ExecutionId
) -> None:
    """Not even two of one attempt; nor two attempts, were an execution id ever used twice."""
    name = build_staging_name(attempt, execution_id)
    if execution_id != other_execution:
        assert name != build_staging_name(attempt, other_execution)
    if (attempt.task_id, attempt.retry_count) != (other.task_id, other.retry_count):
        assert name != build_staging_name(other, execution_id)


@given(wild_text(), wild_text())
def test_escaping_keeps_different_texts_different(one: str, other: str) -> None:
    assert (escape_label(one) == escape_label(other)) is (one == other)


@given(wild_text())
def test_reading_a_foreign_name_never_fails(text: str) -> None:
    parse_staging_name(text)
    parse_staging_name(f"{STAGING_PREFIX}{text}-task-id-{text}-retry-0-exec-{'0' * 32}")

"""The names of staging branches."""

import re

import pytest

from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId, TaskId, WorkflowId
from perago.domain.staging import (
    STAGING_PREFIX,
    StagingName,
    build_staging_name,
    escape_label,
    parse_staging_name,
)

EXECUTION = ExecutionId("0123456789abcdef" * 2)


def attempt(
    task_id: str = "4f1c-7a", *, workflow_id: str = "w-1", reference_name: str = "clean_flights"
) -> Attempt:
    return Attempt(
        workflow_id=WorkflowId(workflow_id),
        task_id=TaskId(task_id),
        task_name="clean_flights",
        reference_name=reference_name,
        retry_count=2,
        seq=5,
        iteration=1,
    )


def test_a_name_reads_like_the_protocol_says() -> None:
    assert build_staging_name(attempt(), EXECUTION) == (
        "perago-staging-w-1-clean_flights-seq-5-iteration-1"
        f"-task-id-4f1c-7a-retry-2-exec-{EXECUTION}"
    )


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("", ""),
        ("plain-Text-09", "plain-Text-09"),
        ("clean_flights", "clean_flights"),
        ("a.b/c", "a_2eb_2fc"),
        ("_", "_"),
        ("_5f", "_5f5f"),
        ("a_be", "a_5fbe"),
        ("a_Be", "a_Be"),
        ("__5f", "__5f5f"),
        ("é", "_c3_a9"),
        ("\ud800", "_ed_a0_80"),
    ],
)
def test_escaping(text: str, escaped: str) -> None:
    assert escape_label(text) == escaped


@pytest.mark.parametrize(
    "task_id",
    [
        "4f1c-7a",
        "",
        "-",
        "--retry-",
        "-task-id-",
        "task-id-x",
        "x-task-id",
        "x-retry",
        f"a-retry-7-exec-{'0' * 32}",
        "_2d",
        "_2-task-id-",
        "dots.and/slashes",
        "航班",
        "\ud800\udc00",
        "\udcff",
    ],
)
def test_a_name_reads_back(task_id: str) -> None:
    name = build_staging_name(attempt(task_id), EXECUTION)
    assert re.fullmatch(r"\w[-\w]*", name, re.ASCII)
    assert parse_staging_name(name) == StagingName(
        task_id=TaskId(task_id), retry_count=2, execution_id=EXECUTION
    )


def test_long_labels_are_cut_and_stay_distinct() -> None:
    one, other = (
        build_staging_name(attempt(workflow_id="w" * 200 + end), EXECUTION) for end in "12"
    )
    assert one != other
    assert len(one) == len(other) < 300
    assert parse_staging_name(one) is not None


@pytest.mark.parametrize("execution_id", ["", "x" * 32, "A" * 32, "0" * 31, "0" * 33])
def test_an_execution_id_must_be_one(execution_id: str) -> None:
    with pytest.raises(ValueError, match="32 hexadecimal digits"):
        build_staging_name(attempt(), ExecutionId(execution_id))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "main",
        STAGING_PREFIX,
        f"{STAGING_PREFIX}w-task-id-t-retry-0-exec-{'0' * 31}",
        f"{STAGING_PREFIX}w-task-id-t-retry--1-exec-{'0' * 32}",
        f"{STAGING_PREFIX}w-task-id-t-retry-{'9' * 5000}-exec-{'0' * 32}",
        f"{STAGING_PREFIX}w-task-id-t-retry-0-exec-{'0' * 32}\n",
        f"other-{STAGING_PREFIX}w-task-id-t-retry-0-exec-{'0' * 32}",
        f"{STAGING_PREFIX}w-task-id-_ff-retry-0-exec-{'0' * 32}",
    ],
)
def test_a_branch_of_somebody_else_is_not_read(name: str) -> None:
    assert parse_staging_name(name) is None

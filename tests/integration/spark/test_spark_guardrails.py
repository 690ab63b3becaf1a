"""Guardrails of one's own that take a `SparkWorkspace`, where the files are local."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from perago import RetryPolicy, SparkWorkspace, TaskControls, WorkspaceSpec, task
from perago.domain.outcome import Phase, TerminalFailure
from perago.testing import TaskEnvironment

pytestmark = pytest.mark.spark

ONCE = TaskControls(retry=RetryPolicy(count=0))


class Params(BaseModel):
    rows: int = 3


class Result(BaseModel):
    rows: int


def has_input(workspace: SparkWorkspace) -> bool:
    return workspace.read.csv("in.csv", header=True).count() == 2


def has_few_rows(workspace: SparkWorkspace) -> str | None:
    rows = workspace.read.parquet("t").count()
    return None if rows < 5 else f"{rows} rows are too many"


def sees_no_view(workspace: SparkWorkspace) -> bool:
    return not workspace.spark.catalog.listTables()


def writes(workspace: SparkWorkspace) -> None:
    workspace.write(workspace.spark.range(1), "more")


def body(workspace: SparkWorkspace, params: Params) -> Result:
    rows = workspace.spark.range(params.rows)
    rows.createOrReplaceTempView("mine")
    workspace.write(rows, "t")
    return Result(rows=params.rows)


@pytest.fixture(scope="module")
def env() -> Iterator[TaskEnvironment]:
    with TaskEnvironment() as environment:
        environment.put({"out/in.csv": "a\n1\n2\n"})
        yield environment


def test_they_see_the_files_on_a_session_of_their_own(env: TaskEnvironment) -> None:
    spec = WorkspaceSpec(
        "out", access="direct", pre=[has_input], post=[has_input, has_few_rows, sees_no_view]
    )
    guarded = task("guarded", owner_email="data@example.com", workspace=spec, controls=ONCE)(body)

    assert env.run(guarded, Params()).published
    broken = env.run(guarded, Params(rows=7))

    assert broken.outcome.phase is Phase.POST_CHECK  # type: ignore[union-attr] # a failure
    assert "has_few_rows: 7 rows are too many" in broken.reason


def test_they_may_refuse_the_input_and_never_write(env: TaskEnvironment) -> None:
    spec = WorkspaceSpec("out", pre=[has_few_rows, writes])
    strict = task("strict", owner_email="data@example.com", workspace=spec, controls=ONCE)(body)

    refused = env.run(strict, Params())

    assert isinstance(refused.outcome, TerminalFailure)
    assert "writes: TaskTerminalError: a read-only task cannot write" in refused.reason

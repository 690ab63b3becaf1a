"""A body on local files that returns while something of its own still runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perago import SparkWorkspace, WorkspaceSpec, task
from perago.domain.outcome import Completed, Failed, Phase
from perago.testing import TaskEnvironment
from tests.stragglers import Params, Result, straggle, straggling

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@task("quiet", owner_email="data@example.com", workspace=WorkspaceSpec("out"))
def quiet(workspace: SparkWorkspace, params: Params) -> Result:
    """Write one table, and leave nothing running."""
    del params
    workspace.write(workspace.spark.range(3), "other")
    return Result(rows=3)


@task("stopping", owner_email="data@example.com", workspace=WorkspaceSpec("out"))
def stopping(workspace: SparkWorkspace, params: Params) -> Result:
    del params
    workspace.write(workspace.spark.range(3), "mine")
    workspace.spark.stop()
    return Result(rows=3)


@pytest.fixture(scope="module")
def env() -> Iterator[TaskEnvironment]:
    with TaskEnvironment() as environment:
        yield environment


@pytest.mark.parametrize("what", ["a slow write", "a slow table", "a stream"])
def test_one_that_writes_publishes_nothing(env: TaskEnvironment, tmp_path: Path, what: str) -> None:
    with straggling():
        run = env.run(straggle, Params(what=what, witness=str(tmp_path)))

    assert isinstance(run.outcome, Failed)
    assert run.outcome.phase is Phase.BODY
    assert "while a write was not over" in run.reason
    assert not run.published


def test_a_thread_that_goes_on_writing_is_found_out_and_not_put_down_to_the_next(
    env: TaskEnvironment, tmp_path: Path
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with straggling():
        run = env.run(straggle, Params(what="table after table", witness=str(tmp_path / "first")))
        after = env.run(quiet, Params(what="nothing", witness=str(tmp_path / "second")))

    assert isinstance(run.outcome, Failed)
    assert "while a write was not over" in run.reason
    assert isinstance(after.outcome, Completed), after.outcome


def test_a_body_that_stops_spark_publishes_nothing(env: TaskEnvironment) -> None:
    """What a thread of its own was writing then may be there in part."""
    run = env.run(stopping, Params(what="nothing", witness=""))

    assert isinstance(run.outcome, Failed)
    assert "the body stopped Spark" in run.reason
    assert not run.published


def test_one_that_reads_is_ended(env: TaskEnvironment, tmp_path: Path) -> None:
    with straggling():
        run = env.run(straggle, Params(what="a slow query", witness=str(tmp_path)))

    assert isinstance(run.outcome, Completed), run.outcome
    assert run.published

"""A direct attempt from its input commit to its publication, on a real lakeFS."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel

from perago import (
    RetryPolicy,
    SparkWorkspace,
    TaskControls,
    WorkspaceSpec,
    forbid_glob,
    require_columns,
    require_file,
    require_rows,
    task,
)
from perago.domain.errors import (
    GuardrailViolationError,
    StagingChangedError,
    UnpublishableFileError,
)
from perago.domain.outcome import Failed, Phase, TerminalFailure
from perago.ports import Failpoint
from tests.integration.direct.lake import MAIN, DirectLake
from tests.integration.lakefs.stranger import Stranger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.lakefs, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

OWNER = "data@example.com"
ONCE = TaskControls(retry=RetryPolicy(count=0))
CSV = b"id,name\n1,a\n2,b\n3,c\n"


class Params(BaseModel):
    what: str = "table"


class Result(BaseModel):
    rows: int


def numbers(workspace: SparkWorkspace, count: int = 30) -> DataFrame:
    return workspace.spark.range(count).selectExpr("id", "id % 3 AS third")


def write_outside(workspace: SparkWorkspace) -> None:
    place = workspace.uri_out("t").replace("/out/t", "/elsewhere/t")
    numbers(workspace).write.parquet(place)


def write_hook(workspace: SparkWorkspace) -> None:
    place = workspace.uri_out("t").replace("/out/t", "/_lakefs_actions/t")
    numbers(workspace).write.parquet(place)


def leave_markers(workspace: SparkWorkspace) -> None:
    """An overwrite by Spark itself deletes first, which leaves markers above."""
    for _ in range(2):
        numbers(workspace).write.mode("overwrite").parquet(workspace.uri_out("t"))


def write_to_input(workspace: SparkWorkspace) -> None:
    numbers(workspace).write.parquet(workspace.uri_in("t"))


def break_off(workspace: SparkWorkspace) -> None:
    workspace.write(numbers(workspace), "t")
    raise RuntimeError("halfway")


ACTS: dict[str, Callable[[SparkWorkspace], object]] = {
    "nothing": lambda _ws: None,
    "table": lambda ws: ws.write(numbers(ws), "t"),
    "delete": lambda ws: ws.delete("old.csv"),
    "outside": write_outside,
    "hook": write_hook,
    "markers": leave_markers,
    "input": write_to_input,
    "break off": break_off,
    "stop": lambda ws: ws.spark.stop(),
}


@task(
    "act",
    owner_email=OWNER,
    workspace=WorkspaceSpec("out", access="direct", post=[forbid_glob("**/_SUCCESS")]),
    controls=ONCE,
)
def act(workspace: SparkWorkspace, params: Params) -> Result:
    ACTS[params.what](workspace)
    if params.what == "stop":
        return Result(rows=0)
    return Result(rows=workspace.read.csv("old.csv", header=True).count())


@task(
    "guarded",
    owner_email=OWNER,
    workspace=WorkspaceSpec(
        "out",
        access="direct",
        pre=[require_file("old.csv"), require_columns("old.csv", ["id", "name"])],
        post=[require_rows("t", max=20), require_columns("t", ["third"])],
    ),
    controls=ONCE,
)
def guarded(workspace: SparkWorkspace, params: Params) -> Result:
    rows = int(params.what)
    workspace.write(numbers(workspace, rows), "t")
    return Result(rows=rows)


@task(
    "look",
    owner_email=OWNER,
    workspace=WorkspaceSpec("out", access="direct", read_only=True),
    controls=ONCE,
)
def look(workspace: SparkWorkspace, params: Params) -> Result:
    ACTS[params.what](workspace)
    return Result(rows=workspace.read.csv("old.csv", header=True).count())


@task(
    "careless",
    owner_email=OWNER,
    workspace=WorkspaceSpec("out", access="direct", post=[require_rows("t", min=1)]),
    controls=ONCE,
)
def careless(workspace: SparkWorkspace, params: Params) -> Result:
    """Has Spark pass over broken files from now on."""
    workspace.spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    workspace.delete("old.csv")
    return Result(rows=workspace.read.option("mergeSchema", "true").parquet("t").count())


@pytest.fixture(autouse=True)
def put_input(lake: DirectLake) -> None:
    lake.put({"out/old.csv": CSV, "in/kept": b"kept"})


def test_what_spark_wrote_is_published_as_one_commit(lake: DirectLake) -> None:
    before = lake.head

    published = lake.publish(act, Params())

    commit = lake.store.head(lake.repository, MAIN)
    assert (commit.id, commit.parents) == (published, (before,))
    assert commit.metadata["perago.phase"] == "confirm"
    files = lake.files(published)
    assert files.keys() > {"in/kept", "out/old.csv"}
    assert all(name.startswith("out/t/part-") for name in files.keys() - {"in/kept", "out/old.csv"})
    assert list(lake.root.rglob("*.parquet")) == [], "nothing is on the worker's disk"


def test_nothing_changed_publishes_nothing(lake: DirectLake) -> None:
    before = lake.head
    assert lake.publish(act, Params(what="nothing")) == before
    assert lake.head == before


def test_a_deleted_file_is_a_change(lake: DirectLake) -> None:
    published = lake.publish(act, Params(what="delete"))
    assert lake.files(published) == {"in/kept": 4}


def test_strays_and_markers_are_not_published(lake: DirectLake) -> None:
    published = lake.publish(act, Params(what="markers"))
    files = lake.files(published)
    assert not [name for name in files if name.endswith(("/", "_SUCCESS"))]
    assert any(name.startswith("out/t/part-") for name in files)


@pytest.mark.parametrize(
    ("what", "named"),
    [("outside", "outside of its prefix out"), ("hook", "the repository's hooks")],
)
def test_a_write_outside_of_the_prefix_fails_the_attempt(
    lake: DirectLake, what: str, named: str
) -> None:
    before = lake.head
    attempted = lake.attempt(act, Params(what=what))
    attempted.assert_failed(UnpublishableFileError, Phase.DIFF, named)
    assert lake.head == before


@pytest.mark.parametrize("what", ["input", "break off", "stop"])
def test_a_body_that_fails_publishes_nothing(lake: DirectLake, what: str) -> None:
    before = lake.head
    attempted = lake.attempt(act, Params(what=what))
    assert isinstance(attempted.outcome, Failed)
    assert lake.head == before


def test_a_body_that_stopped_spark_is_told_so_and_the_next_finds_it_fresh(
    lake: DirectLake,
) -> None:
    attempted = lake.attempt(act, Params(what="stop"))
    assert isinstance(attempted.outcome, Failed)
    assert "stopped Spark" in attempted.outcome.reason
    assert lake.publish(act, Params()) == lake.head


def test_a_read_only_task_makes_no_branch(lake: DirectLake) -> None:
    before = lake.head
    assert lake.publish(look, Params(what="nothing")) == before
    attempted = lake.attempt(look, Params(what="table"))
    assert isinstance(attempted.outcome, TerminalFailure)
    assert "a read-only task cannot write" in attempted.outcome.reason


def test_guardrails_are_checked_on_the_commits(lake: DirectLake) -> None:
    before = lake.head
    broken = lake.attempt(guarded, Params(what="21"))
    broken.assert_failed(GuardrailViolationError, Phase.POST_CHECK, "the table has 21 rows")
    assert lake.head == before
    lake.publish(guarded, Params(what="20"))

    lake.put({"out/old.csv": b"id\n1\n"})
    refused = lake.attempt(guarded, Params(what="1"))
    assert isinstance(refused.outcome, TerminalFailure)
    assert "the table has no column 'name'" in refused.outcome.reason


def test_what_a_body_set_changes_nothing_for_guardrails(lake: DirectLake) -> None:
    table = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2]}), table)
    before = lake.put({"out/t/a.parquet": table.getvalue(), "out/t/b.parquet": b"no Parquet"})

    attempted = lake.attempt(careless, Params())

    attempted.assert_failed(
        GuardrailViolationError, Phase.POST_CHECK, "t: the table cannot be read"
    )
    assert lake.head == before


def test_a_straggler_between_judgement_and_commit_fails_the_attempt(lake: DirectLake) -> None:
    before = lake.head

    def write_late() -> None:
        (staging,) = [
            one for one in lake.store.branches(lake.repository, hidden=True) if one.hidden
        ]
        with Stranger(lake.connection, lake.repository, staging.name) as straggler:
            straggler.put("out/late", b"late")

    attempted = lake.attempt(act, Params(), at={Failpoint.DIFFED: write_late})

    attempted.assert_failed(StagingChangedError, Phase.STAGE, "while it was committed")
    assert lake.head == before


def test_a_staging_that_somebody_committed_to_fails_the_attempt(lake: DirectLake) -> None:
    before = lake.head

    def commit_early() -> None:
        (staging,) = [
            one for one in lake.store.branches(lake.repository, hidden=True) if one.hidden
        ]
        with Stranger(lake.connection, lake.repository, staging.name) as stranger:
            stranger.commit({"out/mine": b"mine"})

    attempted = lake.attempt(act, Params(), at={Failpoint.BODY_DONE: commit_early})

    attempted.assert_failed(StagingChangedError, Phase.DIFF, "committed to the staging branch")
    assert lake.head == before

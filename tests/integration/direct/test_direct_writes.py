"""How tables are written to a staging branch: each mode, whole or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

from perago.adapters.spark import LocalSparkSessions
from perago.domain.attempt import Attempt
from perago.domain.errors import TaskTerminalError
from perago.domain.ids import BranchName, ExecutionId, TaskId, WorkflowId
from perago.domain.staging import STAGING_PREFIX
from perago.domain.workspace import Prefix
from perago.ports import DirectPlace, SparkLease, SparkWorkspace
from tests.integration.direct.lake import DirectLake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.lakefs, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

ATTEMPT = Attempt(
    workflow_id=WorkflowId("w"), task_id=TaskId("t"), task_name="write", reference_name="write"
)
INPUT = {"out/raw/a.csv": b"id,m\n1,1\n2,1\n", "out/raw/b[1].csv": b"id,m\n3,2\n", "out/note": b"x"}


@pytest.fixture
def lease(sessions: LocalSparkSessions) -> Iterator[SparkLease]:
    with sessions.lease(ATTEMPT, ExecutionId(uuid.uuid4().hex), direct=True) as held:
        yield held


@pytest.fixture
def workspace(lake: DirectLake, lease: SparkLease) -> Iterator[SparkWorkspace]:
    head = lake.put(INPUT)
    staging = BranchName(f"{STAGING_PREFIX}{uuid.uuid4().hex}")
    lake.store.create_branch(lake.repository, staging, head, hidden=True)
    place = DirectPlace(
        repository=lake.repository, ref=head, prefix=Prefix.parse("out"), staging=staging
    )
    yield lease.direct_workspace(place, lake.store)
    lake.store.delete_branch(lake.repository, staging)


def table(workspace: SparkWorkspace, *, start: int = 0, end: int = 30, month: int = 3) -> DataFrame:
    return workspace.spark.range(start, end).withColumn("m", F.col("id") % month)


def rows(workspace: SparkWorkspace, path: str = "t") -> list[tuple[int, int]]:
    found = workspace.read_staged.parquet(path).select("id", "m").collect()
    return sorted((row["id"], row["m"]) for row in found)


def expected(start: int, end: int, month: int = 3) -> list[tuple[int, int]]:
    return [(number, number % month) for number in range(start, end)]


def test_an_overwrite_replaces_the_table(workspace: SparkWorkspace) -> None:
    workspace.write(table(workspace), "t")
    workspace.write(table(workspace, end=5), "t")
    assert rows(workspace) == expected(0, 5)


def test_an_append_keeps_what_is_there(workspace: SparkWorkspace) -> None:
    workspace.write(table(workspace), "t", partition_by=["m"])
    workspace.write(table(workspace, start=30, end=40), "t", partition_by=["m"], mode="append")
    assert rows(workspace) == expected(0, 40)


def test_partitions_are_replaced_one_by_one(workspace: SparkWorkspace) -> None:
    workspace.write(table(workspace), "t", partition_by=["m"])
    only = table(workspace, start=100, end=104).withColumn("m", F.lit(1))

    workspace.write(only, "t", partition_by=["m"], mode="overwrite_partitions")

    kept = [row for row in expected(0, 30) if row[1] != 1]
    assert rows(workspace) == sorted([*kept, *((number, 1) for number in range(100, 104))])


def test_a_table_that_is_there_is_left_alone_where_it_must_not_be(
    workspace: SparkWorkspace,
) -> None:
    workspace.write(table(workspace), "t", mode="error")
    with pytest.raises(TaskTerminalError, match="exists, and mode is 'error'"):
        workspace.write(table(workspace), "t", mode="error")
    with pytest.raises(TaskTerminalError, match="'note' is a file"):
        workspace.write(table(workspace), "note/t")
    with pytest.raises(TaskTerminalError, match="cannot append to 'note': it is a file"):
        workspace.write(table(workspace), "note", mode="append")
    with pytest.raises(TaskTerminalError, match="partition_by is"):
        workspace.write(table(workspace), "t", mode="append", partition_by=["m"])


def test_a_write_that_fails_changes_nothing(workspace: SparkWorkspace) -> None:
    workspace.write(table(workspace), "t")
    before = workspace.ls("t", staged=True)
    broken = table(workspace).withColumn("m", F.raise_error(F.lit("no such month")))
    with pytest.raises(Exception, match="no such month"):
        workspace.write(broken, "t")
    assert workspace.ls("t", staged=True) == before
    assert rows(workspace) == expected(0, 30)


def test_a_table_may_be_overwritten_from_itself(workspace: SparkWorkspace) -> None:
    workspace.write(table(workspace), "t")
    workspace.write(workspace.read_staged.parquet("t").where("id < 3"), "t")
    assert rows(workspace) == expected(0, 3)


def test_a_partition_is_one_file_unless_told_otherwise(workspace: SparkWorkspace) -> None:
    spread = table(workspace).repartition(4)
    workspace.write(spread, "one", partition_by=["m"])
    workspace.write(spread, "many", partition_by=["m"], repartition=False)
    assert len(workspace.ls("one", staged=True)) == 3
    assert len(workspace.ls("many", staged=True)) > 3


def test_sorted_rows_lie_in_order(workspace: SparkWorkspace) -> None:
    workspace.write(table(workspace).repartition(4), "t", sort_by=["id"])
    found = workspace.read_staged.parquet("t").collect()
    assert [row["id"] for row in found] == list(range(30))


def test_reading_shows_the_input_and_writing_the_staging(workspace: SparkWorkspace) -> None:
    assert workspace.read.csv("raw", header=True).count() == 3
    assert workspace.read.csv("raw/*.csv", header=True).count() == 3
    assert workspace.read.csv("raw/b[1].csv", header=True).count() == 1
    workspace.write(workspace.read.csv("raw/a.csv", header=True), "raw", format="csv")
    assert workspace.read.csv("raw", header=True).count() == 3
    assert workspace.read_staged.csv("raw", header=True).count() == 2


def test_files_are_listed_and_deleted(workspace: SparkWorkspace) -> None:
    assert workspace.ls() == ["note", "raw/a.csv", "raw/b[1].csv"]
    assert workspace.ls("raw") == ["raw/a.csv", "raw/b[1].csv"]
    assert workspace.ls("ra") == []
    workspace.delete("raw")
    assert workspace.ls(staged=True) == ["note"]
    assert workspace.ls("raw") == ["raw/a.csv", "raw/b[1].csv"]
    with pytest.raises(TaskTerminalError, match="nothing to delete"):
        workspace.delete("raw")


@pytest.mark.parametrize("path", ["/abs", "s3a://lake/main/t", "../t", "a//b"])
def test_a_path_that_leaves_the_workspace_is_refused(workspace: SparkWorkspace, path: str) -> None:
    with pytest.raises(TaskTerminalError, match="not a path of the workspace"):
        workspace.read.parquet(path)
    with pytest.raises(TaskTerminalError, match="not a path of the workspace"):
        workspace.write(table(workspace), path)

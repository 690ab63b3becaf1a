"""Delta tables that Spark writes to lakeFS by itself, read again from the published commits."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lakefs_sdk.exceptions import ApiException
from py4j.protocol import Py4JJavaError
from pydantic import BaseModel
from pyspark.errors import PySparkException

from perago import (
    RetryPolicy,
    SparkWorkspace,
    TaskControls,
    WorkspaceSpec,
    require_rows,
    require_schema,
    require_unique,
    task,
)
from perago.adapters.guardrails import LocalGuardrailEvaluator
from perago.adapters.servers import ThrowawayLakeFS
from perago.adapters.spark import LocalSparkSessions, SparkGuardrailEvaluator, SparkSettings
from perago.domain.attempt import Attempt
from perago.domain.guardrail import Guardrail
from perago.domain.ids import BranchName, CommitId, ExecutionId, TaskId, WorkflowId
from perago.domain.workspace import Prefix
from perago.ports import DirectPlace
from perago.ports.spark import WriteMode
from tests.integration.direct.lake import MAIN, DirectLake, direct_sessions, open_lake
from tests.integration.lakefs.stranger import Stranger
from tests.spark_connect import DELTA_CONF

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.lakefs, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ATTEMPT = Attempt(
    workflow_id=WorkflowId("w"), task_id=TaskId("t"), task_name="look", reference_name="look"
)


class Params(BaseModel):
    what: str


class Result(BaseModel):
    rows: int


def numbers(ws: SparkWorkspace, start: int, end: int) -> DataFrame:
    return ws.spark.range(start, end).selectExpr("id", "id % 3 AS third")


def vacuum(ws: SparkWorkspace) -> None:
    # Safe here: the older commits keep the files that the new one loses.
    ws.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    ws.spark.sql(f"VACUUM delta.`{ws.uri_out('t')}` RETAIN 0 HOURS")


def fail_and_go_on(ws: SparkWorkspace) -> None:
    broken = ws.spark.range(9).selectExpr("id", "if(id > 3, raise_error('no'), id) AS third")
    try:
        ws.write(broken.selectExpr("id", "bigint(third) AS third"), "t", format="delta")
    except PySparkException:
        return
    raise AssertionError("the write should have failed")


def write(ws: SparkWorkspace, start: int, end: int, mode: WriteMode) -> None:
    frame = numbers(ws, start, end)
    ws.write(frame, "t", format="delta", partition_by=["third"], mode=mode)


ACTS: dict[str, Callable[[SparkWorkspace], object]] = {
    "create": lambda ws: write(ws, 0, 9, "error"),
    "append": lambda ws: write(ws, 9, 12, "append"),
    "one partition": lambda ws: ws.write(
        ws.spark.range(100, 102).selectExpr("id", "1L AS third"),
        "t",
        format="delta",
        partition_by=["third"],
        mode="overwrite_partitions",
    ),
    "overwrite": lambda ws: write(ws, 50, 56, "overwrite"),
    "merge": lambda ws: ws.spark.sql(
        f"MERGE INTO delta.`{ws.uri_out('t')}` AS t USING (SELECT 50L AS id, 7L AS third "
        "UNION SELECT 99L, 7L) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    ),
    "vacuum": vacuum,
    "fail": fail_and_go_on,
    "plain": lambda ws: ws.write(numbers(ws, 0, 9), "plain", partition_by=["third"]),
    "plain partition": lambda ws: ws.write(
        ws.spark.range(100, 102).selectExpr("id", "1L AS third"),
        "plain",
        partition_by=["third"],
        mode="overwrite_partitions",
    ),
}


def count(ws: SparkWorkspace) -> int:
    return ws.read_staged.format("delta").load("t").count() if ws.ls("t", staged=True) else 0


@task(
    "act",
    owner_email="data@example.com",
    workspace=WorkspaceSpec("out", access="direct"),
    controls=TaskControls(retry=RetryPolicy(count=0)),
)
def act(workspace: SparkWorkspace, params: Params) -> Result:
    ACTS[params.what](workspace)
    return Result(rows=count(workspace))


@task(
    "act_here",
    owner_email="data@example.com",
    workspace=WorkspaceSpec("out"),
    controls=TaskControls(retry=RetryPolicy(count=0)),
)
def act_here(workspace: SparkWorkspace, params: Params) -> Result:
    ACTS[params.what](workspace)
    return Result(rows=count(workspace))


@pytest.fixture(scope="module")
def tables(
    lakefs_server: ThrowawayLakeFS,
    tmp_path_factory: pytest.TempPathFactory,
    s3a_jars: list[Path],
    delta_jars: list[Path],
) -> Iterator[LocalSparkSessions]:
    settings = SparkSettings(master="local[2]", memory_mb=1024, quick_start=True, conf=DELTA_CONF)
    place = tmp_path_factory.mktemp("delta")
    with direct_sessions(settings, lakefs_server, place, s3a_jars, delta_jars) as sessions:
        yield sessions


@pytest.fixture
def lake(
    lakefs_server: ThrowawayLakeFS, tables: LocalSparkSessions, tmp_path: Path
) -> Iterator[DirectLake]:
    with open_lake(lakefs_server, tables, tmp_path) as lake:
        lake.put({"out/note": b"x"})
        yield lake


@dataclass(frozen=True, slots=True)
class History:
    """A table that was changed in every way, each in a commit of its own."""

    lake: DirectLake
    commits: list[CommitId]


@pytest.fixture(scope="module")
def history(
    lakefs_server: ThrowawayLakeFS,
    tables: LocalSparkSessions,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[History]:
    with open_lake(lakefs_server, tables, tmp_path_factory.mktemp("history")) as lake:
        lake.put({"out/note": b"x"})
        acts = ("create", "append", "one partition", "overwrite", "merge")
        yield History(lake, publish(lake, *acts))


@contextmanager
def looking_at(
    lake: DirectLake, ref: CommitId, staging: BranchName | None = None
) -> Iterator[SparkWorkspace]:
    """Another attempt's view of a commit."""
    with lake.sessions.lease(ATTEMPT, ExecutionId(uuid.uuid4().hex), direct=True) as lease:
        place = DirectPlace(
            repository=lake.repository, ref=ref, prefix=Prefix.parse("out"), staging=staging
        )
        yield lease.direct_workspace(place, lake.store)


def ids(ws: SparkWorkspace, path: str = "t", version: int | None = None) -> list[int]:
    reader = ws.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return sorted(row["id"] for row in reader.load(path).collect())


def data_files(lake: DirectLake, commit: CommitId) -> list[str]:
    return [name for name in lake.files(commit, "out/t/") if "_delta_log/" not in name]


def publish(lake: DirectLake, *acts: str) -> list[CommitId]:
    return [lake.publish(act, Params(what=what)) for what in acts]


def assert_a_merge_is_read_back(lake: DirectLake) -> None:
    """The short form, for Spark that is elsewhere: the tables are the same, and take longer."""
    created, merged = publish(lake, "create", "merge")
    assert [one.name for one in lake.store.branches(lake.repository, hidden=True)] == [MAIN]
    for commit, expected in ((created, list(range(9))), (merged, [*range(9), 50, 99])):
        with looking_at(lake, commit) as ws:
            assert ids(ws) == expected


def test_every_commit_reads_as_it_was_once_the_branches_are_gone(history: History) -> None:
    lake, commits = history.lake, history.commits
    assert [one.name for one in lake.store.branches(lake.repository, hidden=True)] == [MAIN]

    for commit, expected in zip(
        commits,
        [
            list(range(9)),
            list(range(12)),
            [0, 2, 3, 5, 6, 8, 9, 11, 100, 101],
            list(range(50, 56)),
            [50, 51, 52, 53, 54, 55, 99],
        ],
        strict=True,
    ):
        with looking_at(lake, commit) as ws:
            assert ids(ws) == expected

    with looking_at(lake, commits[-1]) as ws:
        assert ids(ws, version=1) == list(range(12))
        assert ws.read.format("delta").load("t").where("third = 7").count() == 2
    names = [name.removeprefix("out/t/") for name in lake.files(commits[-1], "out/t/")]
    log = [name for name in names if name.startswith("_delta_log/")]
    # Delta's sums of a version are kept, and a checkpoint was written; no marker, no `_SUCCESS`.
    assert {name.partition(".")[2] for name in log} == {"json", "crc", "checkpoint.parquet", ""}
    assert [name for name in log if "." not in name] == ["_delta_log/_last_checkpoint"]
    assert all(name.endswith(".parquet") for name in names if name not in log)


def test_guardrails_on_spark_and_on_the_files_agree(history: History, tmp_path: Path) -> None:
    lake, commit = history.lake, history.commits[-1]
    for name in lake.files(commit, "out/"):
        place = tmp_path / "copy" / name.removeprefix("out/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(lake.read(commit, name))
    here, there = LocalGuardrailEvaluator(), SparkGuardrailEvaluator()
    holds: list[Guardrail] = [
        require_rows("t", min=7, max=7),
        require_unique("t", ["id"]),
        require_schema("t", "id BIGINT, third BIGINT"),
    ]
    broken: list[Guardrail] = [
        require_rows("t", max=6),
        require_unique("t", ["third"]),
        require_rows("t/third=1"),
    ]
    with looking_at(lake, commit) as ws:
        assert there.violations(holds, ws) == here.violations(holds, tmp_path / "copy") == []
        found = there.violations(broken, ws)
    assert len(found) == len(broken)
    expected = here.violations(broken, tmp_path / "copy")
    assert [text.partition(", such as ")[0] for text in found] == [
        text.partition(", such as ")[0] for text in expected
    ]


def test_the_files_of_another_format_are_written_as_before(lake: DirectLake) -> None:
    """The committers that are right for S3 and Delta's own go together in one JVM."""
    first, second = publish(lake, "plain", "plain partition")
    with looking_at(lake, first) as ws:
        assert ws.read.parquet("plain").count() == 9
    with looking_at(lake, second) as ws:
        found = sorted(row["id"] for row in ws.read.parquet("plain").collect())
    assert found == [0, 2, 3, 5, 6, 8, 100, 101]


@pytest.mark.torture
def test_vacuum_takes_files_from_the_new_commit_alone(lake: DirectLake) -> None:
    before, replaced, after = publish(lake, "create", "overwrite", "vacuum")
    assert len(data_files(lake, after)) < len(data_files(lake, replaced))
    with looking_at(lake, after) as ws:
        assert ids(ws) == list(range(50, 56))
        with pytest.raises((PySparkException, Py4JJavaError), match="FILE_NOT_EXIST"):
            ids(ws, version=0)
    with looking_at(lake, before) as ws:
        assert ids(ws) == list(range(9))


def test_a_write_that_fails_changes_no_row(lake: DirectLake) -> None:
    _, after = publish(lake, "create", "fail")
    with looking_at(lake, after) as ws:
        assert ids(ws) == list(range(9))
    log = [name for name in lake.files(after, "out/t/_delta_log/") if name.endswith(".json")]
    assert len(log) == 1


def test_two_branches_that_wrote_one_table_do_not_merge(lake: DirectLake) -> None:
    publish(lake, "create")
    head = lake.head
    branches = [BranchName("left"), BranchName("right")]
    for branch in branches:
        lake.store.create_branch(lake.repository, branch, head, hidden=False)
        with looking_at(lake, head, branch) as ws:
            ACTS["append"](ws)
        with Stranger(lake.connection, lake.repository, branch) as stranger:
            stranger.commit({})
    lake.stranger.merge(branches[0])
    with pytest.raises(ApiException) as caught:
        lake.stranger.merge(branches[1])
    assert caught.value.status == 409
    with looking_at(lake, lake.head) as ws:
        assert ids(ws) == list(range(12))
    for branch in branches:
        lake.store.delete_branch(lake.repository, branch)


@pytest.mark.torture
def test_a_table_is_written_from_both_kinds_of_workspace(lake: DirectLake) -> None:
    """Each kind has a JVM of its own, and both have Delta."""
    publish(lake, "create")
    here = lake.publish(act_here, Params(what="append"))
    there = lake.publish(act, Params(what="one partition"))
    with looking_at(lake, here) as ws:
        assert ids(ws) == list(range(12))
    with looking_at(lake, there) as ws:
        assert ids(ws) == [0, 2, 3, 5, 6, 8, 9, 11, 100, 101]

"""What a body may do to Spark, and what a direct attempt makes of it: one clear error, or nothing.

Whatever happens, no staging branch is left (the fixture looks), nothing is published that should
not be, and the next attempt finds all as it should be.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Thread

import pandas as pd
import pytest
from lakefs_sdk.api.branches_api import BranchesApi
from lakefs_sdk.models.reset_creation import ResetCreation
from pydantic import BaseModel
from pyspark import SparkContext
from pyspark.sql import SparkSession

from perago import RetryPolicy, SparkWorkspace, TaskControls, WorkspaceSpec, task
from perago.adapters.servers import ThrowawayLakeFS
from perago.adapters.spark import SparkSettings
from perago.domain.errors import EnvironmentUnfitError, TaskFailed, UnpublishableFileError
from perago.domain.outcome import Failed, Phase
from tests.integration.direct.lake import DirectLake, direct_sessions, open_lake

pytestmark = [pytest.mark.lakefs, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

FOR_EVER = 3600


class Params(BaseModel):
    what: str = "table"


class Result(BaseModel):
    """Nothing to tell."""


def write_table(workspace: SparkWorkspace) -> None:
    workspace.write(workspace.spark.range(10), "t")


def write_to_target(workspace: SparkWorkspace) -> None:
    place = re.sub(r"^(s3a://[^/]+)/[^/]+/", r"\1/main/", workspace.uri_out("astray"))
    workspace.spark.range(10).write.parquet(place)


def start_second_context(workspace: SparkWorkspace) -> None:
    write_table(workspace)
    SparkContext(master="local[1]", appName="mine")


def replace_context(workspace: SparkWorkspace) -> None:
    write_table(workspace)
    workspace.spark.stop()
    assert SparkSession.builder.master("local[1]").getOrCreate().range(3).count() == 3


def change_everything(workspace: SparkWorkspace) -> None:
    """As far as the attempt itself still gets through."""
    spark = workspace.spark
    spark.conf.set("spark.sql.caseSensitive", "true")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    spark.range(1000).cache().count()
    spark.range(3).createOrReplaceGlobalTempView("everybodys")
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.s3a.committer.name", "nonsense")
    hadoop.set("fs.s3a.endpoint", "http://127.0.0.1:1")
    hadoop.set("fs.s3a.bucket.another.secret.key", "mine")


def find_nothing_changed(workspace: SparkWorkspace) -> None:
    spark = workspace.spark
    assert spark.conf.get("spark.sql.caseSensitive") == "false"
    mode = spark.conf.get("spark.sql.sources.partitionOverwriteMode")
    assert mode in ("STATIC", "static")
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()
    assert spark.catalog.listTables("global_temp") == []
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    assert hadoop.get("fs.s3a.committer.name") == "magic"
    assert hadoop.get("fs.s3a.endpoint") is None
    assert hadoop.get("fs.s3a.bucket.another.secret.key") is None
    write_table(workspace)


def lose_the_jvm(workspace: SparkWorkspace) -> None:
    """Killed in the middle of a write, of which one task has committed."""
    jvm = workspace.spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]

    def kill() -> None:
        while not any(name.endswith(".pendingset") for name in workspace.ls("t", staged=True)):
            time.sleep(0.05)
        os.kill(jvm, signal.SIGKILL)

    def stand_still(batches: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
        for batch in batches:
            if batch["id"].max() > 0:
                time.sleep(FOR_EVER)
            yield batch

    Thread(target=kill, daemon=True).start()
    rows = workspace.spark.range(0, 2, 1, numPartitions=2)
    workspace.write(rows.mapInPandas(stand_still, rows.schema), "t")


ACTS: dict[str, Callable[[SparkWorkspace], None]] = {
    "table": write_table,
    "target": write_to_target,
    "second": start_second_context,
    "replace": replace_context,
    "change": change_everything,
    "look": find_nothing_changed,
    "kill": lose_the_jvm,
}


@task(
    "act",
    owner_email="data@example.com",
    workspace=WorkspaceSpec("out", access="direct"),
    controls=TaskControls(retry=RetryPolicy(count=0)),
)
def act(workspace: SparkWorkspace, params: Params) -> Result:
    ACTS[params.what](workspace)
    return Result()


@pytest.fixture(autouse=True)
def put_input(request: pytest.FixtureRequest) -> None:
    if "lake" in request.fixturenames:
        request.getfixturevalue("lake").put({"out/old.csv": b"id\n1\n"})


def test_a_write_to_the_target_itself_fails_the_attempt(lake: DirectLake) -> None:
    """And the next, until somebody has looked at it: the server merges into no such branch."""
    before = lake.head

    first = lake.attempt(act, Params(what="target"))
    first.assert_failed(UnpublishableFileError, Phase.DIFF, "'main' itself", "out/astray/")
    second = lake.attempt(act, Params())
    second.assert_failed(UnpublishableFileError, Phase.DIFF, "'main' itself", "out/astray/")
    assert lake.head == before

    branches = BranchesApi(lake.stranger._client)
    branches.reset_branch(lake.repository, "main", ResetCreation(type="reset"))
    assert lake.publish(act, Params()) == lake.head
    assert not [name for name in lake.files(lake.head) if "astray" in name]


def test_a_second_context_is_refused(lake: DirectLake) -> None:
    before = lake.head
    attempted = lake.attempt(act, Params(what="second"))
    assert isinstance(attempted.outcome, Failed)
    assert "Cannot run multiple SparkContexts at once" in attempted.outcome.reason
    assert lake.head == before
    assert lake.publish(act, Params()) == lake.head


def test_what_a_body_changed_and_cached_is_put_back(lake: DirectLake) -> None:
    before = lake.head
    assert lake.publish(act, Params(what="change")) == before
    assert lake.publish(act, Params(what="look")) == lake.head != before


def test_a_body_that_brings_a_spark_of_its_own_publishes_nothing(lake: DirectLake) -> None:
    before = lake.head
    attempted = lake.attempt(act, Params(what="replace"))
    attempted.assert_failed(EnvironmentUnfitError, Phase.BODY, "the body stopped Spark")
    assert lake.head == before
    assert lake.publish(act, Params(what="look")) == lake.head


def test_a_jvm_that_is_killed_in_the_middle_of_a_write_publishes_nothing(lake: DirectLake) -> None:
    before = lake.head
    attempted = lake.attempt(act, Params(what="kill"))
    attempted.assert_failed(TaskFailed, Phase.BODY, "Spark was stopped or died under the body")
    assert lake.head == before
    assert lake.publish(act, Params(what="look")) == lake.head
    assert all(name.startswith(("out/old", "out/t/part-")) for name in lake.files(lake.head))


@pytest.mark.parametrize(
    ("without", "lacks"),
    [("", "S3AFileSystem"), ("spark-hadoop-cloud", "PathOutputCommitProtocol")],
    ids=["all", "one"],
)
def test_a_spark_without_the_jars_says_which_class_it_lacks(
    lakefs_server: ThrowawayLakeFS, s3a_jars: list[Path], tmp_path: Path, without: str, lacks: str
) -> None:
    some = [jar for jar in s3a_jars if without not in jar.name]
    assert len(some) < len(s3a_jars)
    settings = SparkSettings(master="local[1]", memory_mb=512, quick_start=True)
    with (
        direct_sessions(settings, lakefs_server, tmp_path, some) as sessions,
        open_lake(lakefs_server, sessions, tmp_path) as lake,
    ):
        before = lake.put({"out/old.csv": b"id\n1\n"})
        attempted = lake.attempt(act, Params())
        attempted.assert_failed(EnvironmentUnfitError, Phase.PREPARE, "no class", lacks)
        assert lake.head == before

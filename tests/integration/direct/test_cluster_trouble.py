"""Clusters that refuse, give nothing, or run out of memory: one clear error, nothing published."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from pydantic import BaseModel

from perago import RetryPolicy, SparkWorkspace, TaskControls, WorkspaceSpec, task
from perago.adapters.servers import ThrowawayLakeFS
from perago.adapters.spark import SparkSettings
from perago.domain.errors import EnvironmentUnfitError
from perago.domain.outcome import Failed, Phase
from tests.integration.direct.lake import DirectLake, direct_sessions, open_lake
from tests.spark_cluster import SparkCluster

pytestmark = [pytest.mark.lakefs, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


class Params(BaseModel):
    """How many numbers a single row holds."""

    numbers: int = 10


class Result(BaseModel):
    """Nothing to tell."""


@task(
    "hoard",
    owner_email="data@example.com",
    workspace=WorkspaceSpec("out", access="direct"),
    controls=TaskControls(retry=RetryPolicy(count=0)),
)
def hoard(workspace: SparkWorkspace, params: Params) -> Result:
    rows = workspace.spark.range(1).selectExpr(f"sequence(id, id + {params.numbers}) AS numbers")
    workspace.write(rows, "t")
    return Result()


@contextmanager
def lake_on(
    master: str,
    conf: Mapping[str, str],
    server: ThrowawayLakeFS,
    jars: list[Path],
    place: Path,
) -> Iterator[DirectLake]:
    settings = SparkSettings(
        master=master, memory_mb=512, quick_start=True, conf={**LOOPBACK, **conf}
    )
    with (
        direct_sessions(settings, server, place, jars) as sessions,
        open_lake(server, sessions, place) as lake,
    ):
        lake.put({"out/a": b"a"})
        yield lake


def test_a_cluster_that_is_not_there_is_named(
    lakefs_server: ThrowawayLakeFS, s3a_jars: list[Path], tmp_path: Path
) -> None:
    with closing(socket.socket()) as taken:
        # Bound and never listening: nobody else gets the port, and nobody answers there.
        taken.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{taken.getsockname()[1]}"
        with lake_on(master, {}, lakefs_server, s3a_jars, tmp_path) as lake:
            before = lake.head
            attempted = lake.attempt(hoard, Params())
            attempted.assert_failed(EnvironmentUnfitError, Phase.PREPARE, master)
            assert lake.head == before


def test_a_cluster_that_gives_no_executor_fails_the_attempt_in_time(
    cluster: SparkCluster, lakefs_server: ThrowawayLakeFS, s3a_jars: list[Path], tmp_path: Path
) -> None:
    greedy = {
        "spark.executor.memory": "64g",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "3s",
    }
    with lake_on(cluster.master, greedy, lakefs_server, s3a_jars, tmp_path) as lake:
        before = lake.head
        attempted = lake.attempt(hoard, Params())
        attempted.assert_failed(
            EnvironmentUnfitError, Phase.PREPARE, cluster.master, "no executor within 3 s"
        )
        assert lake.head == before


@pytest.mark.torture
def test_an_executor_out_of_memory_fails_the_attempt_and_not_the_next(
    cluster: SparkCluster, lakefs_server: ThrowawayLakeFS, s3a_jars: list[Path], tmp_path: Path
) -> None:
    small = {"spark.executor.memory": "512m", "spark.task.maxFailures": "2"}
    with lake_on(cluster.master, small, lakefs_server, s3a_jars, tmp_path) as lake:
        before = lake.head
        attempted = lake.attempt(hoard, Params(numbers=400_000_000))
        assert isinstance(attempted.outcome, Failed)
        assert attempted.outcome.phase is Phase.BODY
        assert "failed 2 times" in attempted.outcome.reason
        assert any(b"OutOfMemoryError" in path.read_bytes() for path in cluster.logs())
        assert lake.head == before

        assert lake.publish(hoard, Params()) == lake.head != before

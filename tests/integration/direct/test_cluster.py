"""Direct attempts on a real standalone cluster: a master and two workers, each with one core."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Event, Thread

import pandas as pd
import psutil
import pytest
from pyarrow import parquet
from pydantic import BaseModel

from perago import RetryPolicy, SparkWorkspace, TaskControls, WorkspaceSpec, task
from perago.adapters.servers import ThrowawayLakeFS
from perago.adapters.spark import LocalSparkSessions, SparkSettings, TaskCode
from perago.domain.ids import CommitId
from perago.domain.outcome import Completed
from tests.integration.direct.lake import MAIN, DirectLake, direct_sessions, open_lake
from tests.integration.direct.test_direct_delta import assert_a_merge_is_read_back
from tests.spark_cluster import SparkCluster
from tests.spark_connect import DELTA_CONF

pytestmark = [pytest.mark.lakefs, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ONCE = TaskControls(retry=RetryPolicy(count=0))
ROWS = 40


class Params(BaseModel):
    """`witness` is a directory where each task of the job says in which process it runs."""

    witness: str = ""
    seconds: float = 0.0


class Result(BaseModel):
    rows: int


@task(
    "crunch",
    owner_email="data@example.com",
    workspace=WorkspaceSpec("out", access="direct"),
    controls=ONCE,
)
def crunch(workspace: SparkWorkspace, params: Params) -> Result:
    """Number rows in Python, on whatever machine Spark chooses."""

    def tell(batches: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
        for batch in batches:
            if params.witness:
                Path(params.witness, str(os.getpid())).touch()
                time.sleep(params.seconds)
            yield batch

    rows = workspace.spark.range(ROWS).selectExpr("id", "id % 2 AS half").repartition(4)
    workspace.write(rows.mapInPandas(tell, rows.schema), "t", partition_by=["half"])
    return Result(rows=workspace.read_staged.parquet("t").count())


@pytest.fixture(scope="module")
def sessions(
    started_spark_cluster: SparkCluster,
    lakefs_server: ThrowawayLakeFS,
    tmp_path_factory: pytest.TempPathFactory,
    s3a_jars: list[Path],
    delta_jars: list[Path],
) -> Iterator[LocalSparkSessions]:
    settings = SparkSettings(
        master=started_spark_cluster.master,
        memory_mb=1024,
        quick_start=True,
        conf={
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "4",
            **DELTA_CONF,
        },
    )
    place = tmp_path_factory.mktemp("driver")
    jars = (s3a_jars, delta_jars)
    with direct_sessions(settings, lakefs_server, place, *jars, code=TaskCode()) as sessions:
        yield sessions


@pytest.fixture
def lake(
    lakefs_server: ThrowawayLakeFS, sessions: LocalSparkSessions, tmp_path: Path
) -> Iterator[DirectLake]:
    with open_lake(lakefs_server, sessions, tmp_path) as lake:
        lake.put({"in/a": b"a"})
        yield lake


def ids_at(lake: DirectLake, commit: CommitId, place: Path) -> list[int]:
    """The rows of the table as somebody without Spark reads them from the commit."""
    place.mkdir()
    found: list[int] = []
    for number, path in enumerate(lake.files(commit, "out/t/")):
        file = place / f"{number}.parquet"
        file.write_bytes(lake.read(commit, path))
        found += parquet.read_table(file).column("id").to_pylist()
    return sorted(found)


def test_a_cluster_writes_what_is_published(
    lake: DirectLake, cluster: SparkCluster, tmp_path: Path
) -> None:
    witness = tmp_path / "witness"
    witness.mkdir()

    published = lake.publish(crunch, Params(witness=str(witness)))

    assert lake.head == published
    assert ids_at(lake, published, tmp_path / "read") == list(range(ROWS))
    assert list(witness.iterdir())
    assert list(cluster.directory.glob("work-*/app-*")), "the workers ran its executors"
    for path in cluster.logs():
        text = path.read_bytes()
        assert lake.connection.secret_access_key.encode() not in text, path


@pytest.mark.torture
def test_a_delta_table_is_merged_and_read_back(lake: DirectLake) -> None:
    assert_a_merge_is_read_back(lake)


def test_a_worker_that_is_killed_in_the_middle_costs_no_row(
    lake: DirectLake, cluster: SparkCluster, tmp_path: Path
) -> None:
    witness = tmp_path / "witness"
    witness.mkdir()

    before, killed = lake.head, Event()

    def kill_one() -> None:
        victim = cluster.workers[0].pid
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            tasks = [int(name.name) for name in witness.iterdir()]
            if any(victim in _ancestors_of(task) for task in tasks):
                # The worker takes its executor along, in the middle of a task.
                os.kill(victim, signal.SIGKILL)
                killed.set()
                return
            time.sleep(0.05)

    killer = Thread(target=kill_one)
    killer.start()
    attempted = lake.attempt(crunch, Params(witness=str(witness), seconds=2))
    killer.join()

    assert killed.is_set(), "no task ever ran there"
    assert isinstance(attempted.outcome, Completed), attempted.outcome
    assert lake.head == attempted.output_ref
    assert lake.store.head(lake.repository, MAIN).parents == (before,), "published once"
    assert ids_at(lake, attempted.output_ref, tmp_path / "read") == list(range(ROWS))


def _ancestors_of(pid: int) -> list[int]:
    try:
        return [process.pid for process in psutil.Process(pid).parents()]
    except psutil.NoSuchProcess:
        return []

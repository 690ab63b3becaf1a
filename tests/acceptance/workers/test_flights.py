"""The flights pipeline, Spark and all, on a real Conductor and a real lakeFS."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from examples.flights.source import open_table
from perago.app.follow import RunRequest, start_run
from perago.domain.ids import BranchName
from perago.domain.workflow import WorkflowStatus
from tests.acceptance.command_line import steps_of
from tests.acceptance.workers.site import Site

pytestmark = [
    pytest.mark.conductor,
    pytest.mark.lakefs,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

WRITING_STEPS = ["ingest", "clean", "join", "features", "report"]


@pytest.mark.parametrize("access", ["local", "direct"])
def test_the_flights_pipeline_completes(
    site: Site, tmp_path: Path, project_root: Path, s3a_jars: list[Path], access: str
) -> None:
    site.register("flights")
    site.branch("flights")
    (pipeline,) = site.load("flights").pipelines
    request = RunRequest(
        pipeline=pipeline,
        params={"last_month": 2},
        repository=site.repository,
        branch=BranchName("flights"),
    )
    paths = os.pathsep.join([str(project_root), os.environ.get("PYTHONPATH", "")])
    jars = ",".join(map(str, s3a_jars))  # the worker has a cache of its own
    variables = {
        "PYTHONPATH": paths,
        "PERAGO_SPARK_ACCESS": access,
        "PERAGO_SPARK_JARS": jars,
    }
    with site.worker("-j", "2", module="flights", **variables) as worker:
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
    assert_delays_are_right(site, tmp_path / "exported")


def assert_delays_are_right(site: Site, place: Path) -> None:
    """The published table holds what pandas finds in the raw data."""
    exported = site.run("store", "export", f"{site.repository}@flights", str(place))
    assert exported.code == 0, exported.err
    with open_table("flights") as stream:
        raw = pd.read_csv(stream)
    grouped = raw[raw.month <= 2].groupby("carrier")
    (table,) = place.rglob("features/by_carrier")
    found = parquet.read_table(table).to_pandas().set_index("carrier").sort_index()
    assert found.flights.equals(grouped.size())
    assert found.arrived.equals(grouped.arr_delay.count())
    mean = grouped.arr_delay.mean().round(2)
    np.testing.assert_allclose(found.mean_arr_delay.astype(float), mean, atol=0.011)

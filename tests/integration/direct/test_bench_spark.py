"""`python -m bench spark` in small: both kinds of worker on a real lakeFS, and what is measured."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import IO

import pytest

from bench.spark import contest
from bench.spark.contest import SparkContest
from bench.transfer.server import start_server
from examples.flights.source import open_table
from perago.adapters.servers import Binary

pytestmark = [
    pytest.mark.lakefs,
    pytest.mark.spark,
    pytest.mark.torture,
    pytest.mark.timeout(900),
]

ROWS = 2000


def copy_some(name: str, target: IO[bytes], _scale: int) -> None:
    with open_table(name) as source:
        target.writelines(islice(source, 1 + ROWS))


def test_both_kinds_run_the_same_step_and_are_measured(
    lakefs_binary: Binary, s3a_jars: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contest, "copy_table", copy_some)
    monkeypatch.setattr(contest, "WARM_UPS", 2)
    with start_server(lakefs_binary, tmp_path / "server") as server:
        small = SparkContest(server, tmp_path, ["clean"], memory_mb=1024)
        seeded = small.seed(1)
        runs = {run.access: run for run in small.run(seeded, 1)}
        small.remove(seeded)

    assert runs.keys() == {"local", "direct"}
    local, direct = runs["local"], runs["direct"]
    assert seeded.rows == ROWS
    for run in runs.values():
        assert [step.name for step in run.warm_ups + run.steps] == ["warm_up", "warm_up", "clean"]
        assert all({"lease", "open", "close"} <= step.spark.keys() for step in run.warm_ups)
        assert run.peaks.python > 0
        assert run.peaks.jvm > run.peaks.python
        assert all(step.spark_cpu_seconds > 0 for step in run.steps)
    assert local.steps[0].result == direct.steps[0].result
    assert local.spark_traffic.total == 0
    raw = 150_000
    assert local.worker_traffic.received > raw
    assert direct.spark_traffic.received > raw
    marker = 64 * 1024  # of the attempt's directory, which holds nothing else
    assert direct.peaks.disk["workspaces"] < marker
    assert "settle" in direct.steps[0].spark

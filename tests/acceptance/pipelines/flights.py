"""The example's flights pipeline. Copied under a name of the test's own, which its tasks take."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

from examples.flights import pipeline as example
from examples.flights.source import open_table
from perago import Pipeline, WorkspaceSpec, require_rows
from perago.authoring import AnyTask

FLIGHTS = "raw/flights.csv"
MARK = Path(__file__).stem.rpartition("_")[2]


def under_this_name(task: AnyTask) -> AnyTask:
    """The example's task; its first step asks for as many flights as there are in a sample, too."""
    renamed = replace(task, name=f"{task.name}_{MARK}")
    if task.name != "ingest":
        return renamed
    assert task.workspace is not None
    kept = [rule for rule in task.workspace.post if rule != require_rows(FLIGHTS, min=300_000)]
    assert len(kept) == len(task.workspace.post) - 1
    enough = require_rows(FLIGHTS, min=300_000 if has_all_flights() else 4_000)
    return replace(renamed, workspace=WorkspaceSpec(post=[*kept, enough]))


def has_all_flights() -> bool:
    with open_table("flights") as lines:
        return sum(1 for _ in islice(lines, 300_000)) == 300_000


here = Pipeline(
    f"flights_{MARK}",
    1,
    [under_this_name(task) for task in example.pipeline.tasks],
    params=example.FlightsParams,
)

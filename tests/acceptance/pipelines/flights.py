"""The example's flights pipeline. Copied under a name of the test's own, which its tasks take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from examples.flights import pipeline as example
from perago import Pipeline, WorkspaceSpec, require_rows
from perago.authoring import AnyTask

MARK = Path(__file__).stem.rpartition("_")[2]


def under_this_name(task: AnyTask) -> AnyTask:
    """The example's task; its first step takes a sample of the data, too."""
    renamed = replace(task, name=f"{task.name}_{MARK}")
    if task.name != "ingest":
        return renamed
    enough = require_rows("raw/flights.csv", min=4_000)
    return replace(renamed, workspace=WorkspaceSpec(post=[enough]))


here = Pipeline(
    f"flights_{MARK}",
    1,
    [under_this_name(task) for task in example.pipeline.tasks],
    params=example.FlightsParams,
)

"""The example's flights pipeline. Copied under a name of the test's own, which its tasks take."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from examples.flights import pipeline as example
from perago import Pipeline

MARK = Path(__file__).stem.rpartition("_")[2]

here = Pipeline(
    f"flights_{MARK}",
    1,
    [replace(task, name=f"{task.name}_{MARK}") for task in example.pipeline.tasks],
    params=example.FlightsParams,
)

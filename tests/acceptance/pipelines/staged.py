"""A body on Spark that waits in the middle of a stage until somebody has seen it there."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
from pydantic import BaseModel

from perago import Pipeline, RetryPolicy, SparkWorkspace, TaskControls, WorkspaceSpec, task


class Params(BaseModel):
    """`gate` is the file that it waits for."""

    gate: str


class Result(BaseModel):
    rows: int


@task(
    "count_slowly",
    owner_email="data@example.com",
    workspace=WorkspaceSpec("out"),
    controls=TaskControls(retry=RetryPolicy(count=0)),
)
def count_slowly(workspace: SparkWorkspace, params: Params) -> Result:
    """Write a table in several stages, the first of which takes until the gate is open."""

    gate = params.gate  # Spark's Python need not know this module then

    def wait(batches: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
        while not Path(gate).exists():
            time.sleep(0.05)
        yield from batches

    rows = workspace.spark.range(0, 100, 1, 4).mapInPandas(wait, "id long")
    workspace.write(rows, "numbers", sort_by=["id"])
    return Result(rows=workspace.read_staged.parquet("numbers").count())


counting = Pipeline("counting", 1, [count_slowly], params=Params)

"""A task whose Spark job never ends by itself. Copied under a name of the test's own."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
from pydantic import BaseModel

from perago import (
    PublishBudget,
    RetryPolicy,
    SparkWorkspace,
    TaskControls,
    WorkspaceSpec,
    task,
)

MARK = Path(__file__).stem.rpartition("_")[2]


class Params(BaseModel):
    """`witness` is a file that the job adds to for as long as it runs; empty, and it has no job."""

    witness: str = ""


class Result(BaseModel):
    rows: int


@task(
    f"crunch_{MARK}",
    owner_email="data@example.com",
    workspace=WorkspaceSpec("out"),
    controls=TaskControls(
        retry=RetryPolicy(count=0),
        publish_budget=PublishBudget(
            observed_merge_p99_seconds=2,
            safety_factor=2,
            conductor_completion_reserve_seconds=2,
            heartbeat_interval_seconds=1,
            shutdown_grace_seconds=2,
        ),
    ),
)
def crunch(workspace: SparkWorkspace, params: Params) -> Result:
    """Write a table, after a job that goes on for ever where there is a witness."""
    rows = workspace.spark.range(10)
    workspace.write(rows, "numbers")
    if params.witness:

        def never_ending(batches: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
            yield from batches
            while Path(params.witness).parent.exists():
                with Path(params.witness).open("a") as lines:
                    lines.write("at it\n")
                time.sleep(0.1)

        rows.mapInPandas(never_ending, rows.schema).count()
    return Result(rows=rows.count())

"""Spark tasks that work on the lake itself. Copied under a name of the test's own, which they take.

What each writes tells which attempt wrote it, in one file.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from threading import Thread

import pandas as pd
from pydantic import BaseModel

from perago import (
    PublishBudget,
    RetryPolicy,
    SparkWorkspace,
    TaskContext,
    TaskControls,
    TimeoutPolicy,
    WorkspaceSpec,
    task,
)

MARK = Path(__file__).stem.rpartition("_")[2]
OWNER = "data@example.com"
TABLE = "t"
FOR_EVER = 3600


def controls(lease: int, merge: float, beat: float = 1) -> TaskControls:
    """Retried at once; `lease` is the response time-out."""
    return TaskControls(
        retry=RetryPolicy(count=5, delay_seconds=0),
        timeout=TimeoutPolicy(response_seconds=lease),
        publish_budget=PublishBudget(
            observed_merge_p99_seconds=1,
            safety_factor=1,
            conductor_completion_reserve_seconds=1,
            heartbeat_interval_seconds=beat,
            shutdown_grace_seconds=1,
            lakefs_merge_timeout_seconds=merge,
        ),
    )


class Params(BaseModel):
    """`idle_from` is the retry from which on the body changes nothing.

    `apart` says nothing here: no two attempts of Spark ever write the same file.
    """

    idle_from: int = 100
    apart: bool = True


class Result(BaseModel):
    retry: int


def write(workspace: SparkWorkspace, params: Params, context: TaskContext) -> Result:
    """Leave a line that tells which attempt wrote it."""
    retry = context.attempt.retry_count
    if retry < params.idle_from:
        line = workspace.spark.sql(f"SELECT 'done {retry}' AS value")
        workspace.write(line, TABLE, format="text")
    return Result(retry=retry)


@task(
    f"direct_{MARK}",
    owner_email=OWNER,
    workspace=WorkspaceSpec("out", access="direct"),
    controls=controls(60, 5),
)
def direct(workspace: SparkWorkspace, params: Params, context: TaskContext) -> Result:
    """Write a line."""
    return write(workspace, params, context)


@task(
    f"direct_brief_{MARK}",
    owner_email=OWNER,
    workspace=WorkspaceSpec("out", access="direct"),
    controls=controls(10, 3, beat=2),
)
def direct_brief(workspace: SparkWorkspace, params: Params, context: TaskContext) -> Result:
    """The same, on a short lease."""
    return write(workspace, params, context)


class Nothing(BaseModel):
    """It needs none."""


@task(
    f"grind_{MARK}",
    owner_email=OWNER,
    workspace=WorkspaceSpec("out", access="direct"),
    controls=controls(60, 5),
)
def grind(workspace: SparkWorkspace, params: Nothing, context: TaskContext) -> Result:
    """The first attempt dies in the middle of a write, of which one task has committed."""
    if context.attempt.retry_count == 0:
        Thread(target=die_after_a_commit, args=(workspace,), daemon=True).start()

        def stand_still(batches: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
            for batch in batches:
                if batch["id"].max() > 0:
                    time.sleep(FOR_EVER)
                yield batch

        rows = workspace.spark.range(0, 2, 1, numPartitions=2)
        workspace.write(rows.mapInPandas(stand_still, rows.schema), TABLE)
    return write(workspace, Params(), context)


def die_after_a_commit(workspace: SparkWorkspace) -> None:
    """Wait for what the committer keeps of a task that is done, and kill Python and the JVM."""
    while not any(name.endswith(".pendingset") for name in workspace.ls(TABLE, staged=True)):
        time.sleep(0.1)
    os.killpg(os.getpgrp(), signal.SIGKILL)

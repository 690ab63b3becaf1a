"""A small pipeline without Spark whose result can be computed by hand: for crash tests.

Three writing steps and a read-only one. Every step reads what the one before wrote, so a lost or
doubled publication shows in the rows.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel

from perago import (
    Pipeline,
    RetryPolicy,
    TaskControls,
    WorkspaceSpec,
    require_file,
    require_rows,
    task,
)

OWNER = "data@example.com"
# A test kills more often than any limit for people would allow.
PATIENT = TaskControls(retry=RetryPolicy(count=1000, delay_seconds=0))


class Params(BaseModel):
    rows: int = 200


class Rows(BaseModel):
    rows: int
    total: int


@task("make", owner_email=OWNER, workspace=WorkspaceSpec(prefix="tally"), controls=PATIENT)
def make(workspace: Path, params: Params) -> Rows:
    """Write the numbers below `rows`."""
    return write(workspace / "made.parquet", pa.table({"n": range(params.rows)}))


@task(
    "double",
    owner_email=OWNER,
    workspace=WorkspaceSpec(prefix="tally", pre=[require_file("made.parquet")]),
    controls=PATIENT,
)
def double(workspace: Path, params: Params) -> Rows:
    """Double every number."""
    made = pq.read_table(workspace / "made.parquet")
    return write(workspace / "doubled.parquet", pa.table({"n": pc.multiply(made["n"], 2)}))


@task(
    "pair",
    owner_email=OWNER,
    workspace=WorkspaceSpec(prefix="tally", post=[require_rows("paired.parquet")]),
    controls=PATIENT,
)
def pair(workspace: Path, params: Params) -> Rows:
    """Put both tables below each other, and drop the first."""
    tables = [pq.read_table(workspace / name) for name in ("made.parquet", "doubled.parquet")]
    (workspace / "made.parquet").unlink()
    return write(workspace / "paired.parquet", pa.concat_tables(tables))


@task(
    "check",
    owner_email=OWNER,
    workspace=WorkspaceSpec(prefix="tally", read_only=True),
    controls=PATIENT,
)
def check(workspace: Path, params: Params) -> Rows:
    """Count what is there."""
    return summarise(pq.read_table(workspace / "paired.parquet"))


def write(path: Path, table: pa.Table) -> Rows:
    """Write a table; the same rows give the same bytes."""
    pq.write_table(table, path)
    return summarise(table)


def summarise(table: pa.Table) -> Rows:
    """Its rows and their sum."""
    return Rows(rows=table.num_rows, total=pc.sum(table["n"]).as_py() or 0)


tally = Pipeline("tally", 1, [make, double, pair, check], params=Params)

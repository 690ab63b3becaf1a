"""Step 1: the raw tables, byte for byte as they were published."""

import shutil
from pathlib import Path

from pydantic import BaseModel

from examples.flights.source import TABLES, open_table
from perago import (
    RetryPolicy,
    TaskContext,
    TaskControls,
    WorkspaceSpec,
    require_columns,
    require_rows,
    task,
)


class IngestParams(BaseModel):
    """Nothing to choose: the data set is one."""


class IngestResult(BaseModel):
    """What was ingested, in bytes per table."""

    bytes: dict[str, int]


@task(
    "ingest",
    owner_email="flights@example.com",
    workspace=WorkspaceSpec(
        post=[
            require_columns("raw/airlines.csv", ["carrier", "name"]),
            require_columns("raw/airports.csv", ["faa", "name", "lat", "lon"]),
            require_columns("raw/flights.csv", ["time_hour", "carrier", "flight", "arr_delay"]),
            require_columns("raw/planes.csv", ["tailnum", "year", "seats"]),
            require_columns("raw/weather.csv", ["origin", "time_hour", "precip", "visib"]),
            require_rows("raw/flights.csv", min=300_000),
        ],
    ),
    controls=TaskControls(retry=RetryPolicy(count=3, delay_seconds=1)),
)
def ingest(workspace: Path, _params: IngestParams, context: TaskContext) -> IngestResult:
    """Copy the five raw tables into the workspace."""
    raw = workspace / "raw"
    raw.mkdir(exist_ok=True)
    sizes = {}
    for number, name in enumerate(TABLES):
        context.progress(name, number / len(TABLES))
        with open_table(name) as source, (raw / f"{name}.csv").open("wb") as target:
            shutil.copyfileobj(source, target)
            sizes[name] = target.tell()
    return IngestResult(bytes=sizes)

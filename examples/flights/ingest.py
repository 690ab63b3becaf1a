"""Step 1: the raw tables, byte for byte as they were published, or more of the same."""

from pathlib import Path

from pydantic import BaseModel, Field

from examples.flights.scale import copy_table
from examples.flights.source import TABLES
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
    """How many years of flights: the one that there was, and copies of it in the years after."""

    scale: int = Field(default=1, ge=1, le=1000)


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
def ingest(workspace: Path, params: IngestParams, context: TaskContext) -> IngestResult:
    """Copy the five raw tables into the workspace."""
    raw = workspace / "raw"
    raw.mkdir(exist_ok=True)
    sizes = {}
    for number, name in enumerate(TABLES):
        context.progress(name, number / len(TABLES))
        with (raw / f"{name}.csv").open("wb") as target:
            copy_table(name, target, params.scale)
            sizes[name] = target.tell()
    return IngestResult(bytes=sizes)

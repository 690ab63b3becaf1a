"""Step 5: a read-only look at what the steps before have published."""

from collections.abc import Iterator

from pydantic import BaseModel, Field
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from examples.flights.counting import sum_flights
from examples.flights.features import KEYS
from perago import (
    SparkWorkspace,
    TaskTerminalError,
    WorkspaceSpec,
    require_dir,
    task,
)


class QualityParams(BaseModel):
    """How much may be missing."""

    max_without_weather: float = Field(default=0.05, ge=0, le=1)


class Check(BaseModel):
    """One thing that was looked at; `found` says what was seen."""

    name: str
    passed: bool
    found: str


class QualityResult(BaseModel):
    """All checks; a result exists only if every one has passed."""

    rows: int
    checks: list[Check]


@task(
    "quality",
    owner_email="flights@example.com",
    workspace=WorkspaceSpec(
        read_only=True,
        pre=[require_dir("clean/flights"), require_dir("joined/flights"), require_dir("features")],
    ),
)
def quality(workspace: SparkWorkspace, params: QualityParams) -> QualityResult:
    """Check that no flight was lost, doubled or made up on the way; a failure ends the run."""
    joined = workspace.read.parquet("joined/flights")
    rows = joined.count()
    tables = {name: workspace.read.parquet(f"features/{name}") for name in KEYS}
    checks = [
        *check_joined(joined, workspace.read.parquet("clean/flights"), params),
        *(check_total(name, found, rows) for name, found in sum_flights(tables).items()),
    ]
    failed = [f"{check.name}: {check.found}" for check in checks if not check.passed]
    if failed:
        raise TaskTerminalError(
            "the published tables are wrong: " + "; ".join(failed),
            hint="a retry reads the same commit; repair the step that wrote it and run again",
        )
    return QualityResult(rows=rows, checks=checks)


def check_joined(joined: DataFrame, clean: DataFrame, params: QualityParams) -> Iterator[Check]:
    """What must hold of the joined flights."""
    seen = joined.agg(
        F.count(F.lit(1)).alias("rows"),
        F.count_distinct("time_hour", "carrier", "flight").alias("distinct"),
        F.count("carrier_name").alias("named"),
        F.count_if(F.col("condition") == "unknown").alias("without_weather"),
        F.min("dep_delay").alias("earliest"),
        F.count_if(F.col("cancelled") & F.col("arr_delay").isNotNull()).alias("impossible"),
    ).head()
    assert seen is not None
    expected = clean.count()
    yield Check(
        name="every clean flight is joined",
        passed=seen.rows == expected,
        found=f"{seen.rows} of {expected}",
    )
    yield Check(
        name="no flight is there twice",
        passed=seen.distinct == seen.rows,
        found=f"{seen.distinct} distinct of {seen.rows}",
    )
    yield Check(
        name="every carrier has a name",
        passed=seen.named == seen.rows,
        found=f"{seen.rows - seen.named} without",
    )
    allowed = params.max_without_weather * seen.rows
    yield Check(
        name=f"at most {params.max_without_weather:.0%} are without weather",
        passed=seen.without_weather <= allowed,
        found=f"{seen.without_weather} of {seen.rows}",
    )
    yield Check(
        name="nothing departs more than two hours early",
        passed=seen.earliest is None or seen.earliest >= -120,
        found=f"the earliest by {-(seen.earliest or 0)} minutes",
    )
    yield Check(
        name="no cancelled flight has arrived",
        passed=seen.impossible == 0,
        found=f"{seen.impossible} have",
    )


def check_total(name: str, found: int, expected: int) -> Check:
    """Each feature table counts every flight once."""
    return Check(
        name=f"features/{name} adds up",
        passed=found == expected,
        found=f"{found} of {expected} flights",
    )

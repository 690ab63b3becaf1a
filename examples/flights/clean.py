"""Step 2: types for text, null for `NA`, and nothing that cannot be true."""

from typing import Self

from pydantic import BaseModel, Field, model_validator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from perago import (
    RetryPolicy,
    SparkWorkspace,
    TaskControls,
    WorkspaceSpec,
    forbid_glob,
    require_columns,
    require_file,
    require_glob,
    require_rows,
    task,
)

RAW_SCHEMAS = {
    "airlines": "carrier STRING, name STRING",
    "airports": (
        "faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING"
    ),
    "flights": (
        "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, "
        "arr_time INT, sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, "
        "tailnum STRING, origin STRING, dest STRING, air_time INT, distance INT, hour INT, "
        "minute INT, time_hour TIMESTAMP"
    ),
    "planes": (
        "tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING, engines INT, "
        "seats INT, speed INT, engine STRING"
    ),
    "weather": (
        "origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, "
        "humid DOUBLE, wind_dir INT, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, "
        "pressure DOUBLE, visib DOUBLE, time_hour TIMESTAMP"
    ),
}

FASTEST_WIND_MPH = 200
"""No wind was ever measured faster at an airport; the raw data holds one of 1048."""


class CleanParams(BaseModel):
    """Which months of 2013 to keep."""

    first_month: int = Field(default=1, ge=1, le=12)
    last_month: int = Field(default=12, ge=1, le=12)

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.first_month > self.last_month:
            raise ValueError("first_month must not come after last_month")
        return self


class CleanResult(BaseModel):
    """How many rows each clean table has, and what was found on the way."""

    rows: dict[str, int]
    cancelled: int
    diverted: int
    impossible_winds: int


@task(
    "clean",
    owner_email="flights@example.com",
    workspace=WorkspaceSpec(
        pre=[require_file(f"raw/{name}.csv") for name in RAW_SCHEMAS],
        post=[
            require_glob("clean/flights/month=*/*.parquet", min=1, max=12),
            require_columns("clean/flights", ["time_hour", "carrier", "cancelled", "month"]),
            require_rows("clean/flights"),
            require_rows("clean/airlines", min=16),
            forbid_glob("**/_SUCCESS"),
        ],
    ),
    controls=TaskControls(retry=RetryPolicy(count=3, delay_seconds=1)),
)
def clean(workspace: SparkWorkspace, params: CleanParams) -> CleanResult:
    """Type every column, mark what was cancelled or diverted, drop what cannot be true."""
    in_range = F.col("month").between(params.first_month, params.last_month)
    raw_weather = read_raw(workspace, "weather").where(in_range)
    flights = clean_flights(read_raw(workspace, "flights").where(in_range))
    workspace.write(
        flights,
        "clean/flights",
        partition_by=["month"],
        sort_by=["time_hour", "carrier", "flight"],
    )
    workspace.write(clean_weather(raw_weather), "clean/weather", sort_by=["origin", "time_hour"])
    workspace.write(clean_planes(workspace), "clean/planes", sort_by=["tailnum"])
    workspace.write(
        read_raw(workspace, "airports").select("faa", "name", "lat", "lon", "tzone"),
        "clean/airports",
        sort_by=["faa"],
    )
    workspace.write(read_raw(workspace, "airlines"), "clean/airlines", sort_by=["carrier"])
    return summarise(workspace, raw_weather)


def read_raw(workspace: SparkWorkspace, name: str) -> DataFrame:
    """A raw table with types; a row that does not fit them fails the step."""
    return workspace.read.csv(
        f"raw/{name}.csv",
        schema=RAW_SCHEMAS[name],
        header=True,
        nullValue="NA",
        mode="FAILFAST",
        enforceSchema=False,
    )


def clean_flights(raw: DataFrame) -> DataFrame:
    """One row per scheduled flight."""
    return raw.select(
        F.make_date("year", "month", "day").alias("flight_date"),
        "time_hour",
        "hour",
        "minute",
        "carrier",
        "flight",
        "tailnum",
        "origin",
        "dest",
        "distance",
        "air_time",
        "dep_delay",
        "arr_delay",
        F.col("dep_time").isNull().alias("cancelled"),
        (F.col("dep_time").isNotNull() & F.col("arr_delay").isNull()).alias("diverted"),
        "month",
    )


def clean_weather(raw: DataFrame) -> DataFrame:
    """One row per airport and hour; of two reports the same one is always kept."""
    wind = F.when(F.col("wind_speed") < FASTEST_WIND_MPH, F.col("wind_speed")).alias("wind_speed")
    report = F.struct("temp", "humid", wind, "precip", "visib")
    return (
        raw.groupBy("origin", "time_hour")
        .agg(F.max(report).alias("report"))
        .select("origin", "time_hour", "report.*")
    )


def clean_planes(workspace: SparkWorkspace) -> DataFrame:
    """One row per aircraft."""
    return read_raw(workspace, "planes").select(
        "tailnum", F.col("year").alias("built"), "manufacturer", "model", "engines", "seats"
    )


def summarise(workspace: SparkWorkspace, raw_weather: DataFrame) -> CleanResult:
    """Count what was written, from the files that were written."""
    flights = workspace.read_staged.parquet("clean/flights")
    counted = flights.agg(F.count_if("cancelled"), F.count_if("diverted")).head()
    assert counted is not None
    return CleanResult(
        rows={name: workspace.read_staged.parquet(f"clean/{name}").count() for name in RAW_SCHEMAS},
        cancelled=counted[0],
        diverted=counted[1],
        impossible_winds=raw_weather.where(F.col("wind_speed") >= FASTEST_WIND_MPH).count(),
    )

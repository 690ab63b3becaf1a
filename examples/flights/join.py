"""Step 3: each flight with the weather, the aircraft and the airport that belong to it."""

from collections.abc import Mapping

from pydantic import BaseModel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from perago import (
    RetryPolicy,
    SparkWorkspace,
    TaskControls,
    WorkspaceSpec,
    require_columns,
    require_rows,
    task,
)

TABLES = ("airlines", "airports", "flights", "planes", "weather")


class JoinParams(BaseModel):
    """The year up to which the age of an aircraft is counted."""

    year: int = 2013


class JoinResult(BaseModel):
    """How many flights found their partners."""

    rows: int
    with_weather: int
    with_plane: int
    with_airport: int


@task(
    "join",
    owner_email="flights@example.com",
    workspace=WorkspaceSpec(
        pre=[require_rows(f"clean/{name}") for name in TABLES],
        post=[
            require_columns("joined/flights", ["condition", "plane_age", "dest_name", "month"]),
            require_rows("joined/flights"),
        ],
    ),
    controls=TaskControls(retry=RetryPolicy(count=3, delay_seconds=1)),
)
def join(workspace: SparkWorkspace, params: JoinParams) -> JoinResult:
    """Join flights with weather, planes, airports and airlines; no flight is lost or doubled."""
    clean = {name: workspace.read.parquet(f"clean/{name}") for name in TABLES}
    workspace.write(
        join_flights(clean, params.year),
        "joined/flights",
        partition_by=["month"],
        sort_by=["time_hour", "carrier", "flight"],
    )
    counted = (
        workspace.read_staged.parquet("joined/flights")
        .agg(
            F.count(F.lit(1)),
            F.count_if(F.col("condition") != "unknown"),
            F.count("seats"),
            F.count("dest_name"),
        )
        .head()
    )
    assert counted is not None
    return JoinResult(
        rows=counted[0], with_weather=counted[1], with_plane=counted[2], with_airport=counted[3]
    )


def join_flights(clean: Mapping[str, DataFrame], year: int) -> DataFrame:
    """Left joins, for a flight without weather or a known aircraft is still a flight."""
    flights = clean["flights"]
    destinations = clean["airports"].select(
        F.col("faa").alias("dest"),
        F.col("name").alias("dest_name"),
        F.col("lat").alias("dest_lat"),
        F.col("lon").alias("dest_lon"),
    )
    carriers = clean["airlines"].select("carrier", F.col("name").alias("carrier_name"))
    aircraft = clean["planes"].select(
        "tailnum", (F.lit(year) - F.col("built")).alias("plane_age"), "manufacturer", "seats"
    )
    return (
        flights.join(F.broadcast(clean["weather"]), ["origin", "time_hour"], "left")
        .join(F.broadcast(aircraft), "tailnum", "left")
        .join(F.broadcast(destinations), "dest", "left")
        .join(F.broadcast(carriers), "carrier", "left")
        .withColumn("condition", classify_weather())
        .select(
            *[name for name in flights.columns if name != "month"],
            "carrier_name",
            "dest_name",
            "dest_lat",
            "dest_lon",
            "plane_age",
            "manufacturer",
            "seats",
            "temp",
            "wind_speed",
            "precip",
            "visib",
            "condition",
            "month",
        )
    )


def classify_weather() -> Column:
    """One word for the weather at departure; the first that fits, from the worst down."""
    return (
        F.when(F.col("visib").isNull(), "unknown")
        .when((F.col("precip") > 0) & (F.col("temp") <= 34), "snow or ice")
        .when(F.col("precip") >= 0.1, "heavy rain")
        .when(F.col("precip") > 0, "rain")
        .when(F.col("visib") < 3, "fog")
        .when(F.col("wind_speed") >= 25, "strong wind")
        .otherwise("clear")
    )

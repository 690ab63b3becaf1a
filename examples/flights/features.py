"""Step 4: what delays look like by route, carrier, hour, month and weather."""

from pydantic import BaseModel, Field
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import WindowSpec

from examples.flights.counting import count_rows
from perago import (
    RetryPolicy,
    SparkWorkspace,
    TaskContext,
    TaskControls,
    WorkspaceSpec,
    require_columns,
    require_rows,
    task,
)

LATE_MINUTES = 15
"""From here on the aviation authority calls an arrival late."""

KEYS = {
    "route_carrier_hour": ["origin", "dest", "carrier", "hour"],
    "by_route": ["origin", "dest"],
    "by_carrier": ["carrier"],
    "by_origin": ["origin"],
    "by_hour": ["hour"],
    "by_month": ["month"],
    "by_month_hour": ["month", "hour"],
    "by_weather": ["condition"],
}
"""Every feature table and what one row of it stands for."""


NAMES = {"by_route": ["dest_name"], "by_carrier": ["carrier_name"]}
"""What a group is called, where its key is an abbreviation."""

NEEDED = (
    *("origin", "dest", "dest_name", "carrier", "carrier_name", "hour", "month", "condition"),
    *("cancelled", "dep_delay", "arr_delay"),
)


class FeaturesParams(BaseModel):
    """How many flights a route or carrier must have to take part in a ranking."""

    min_flights: int = Field(default=100, ge=1)


class FeaturesResult(BaseModel):
    """How many rows each feature table has, and how many routes are ranked."""

    rows: dict[str, int]
    ranked_routes: int


@task(
    "features",
    owner_email="flights@example.com",
    workspace=WorkspaceSpec(
        pre=[require_columns("joined/flights", ["dep_delay", "arr_delay", "cancelled"])],
        post=[
            *[require_rows(f"features/{name}") for name in KEYS],
            require_columns("features/by_route", ["flights", "mean_arr_delay", "rank"]),
        ],
    ),
    controls=TaskControls(retry=RetryPolicy(count=3, delay_seconds=1)),
)
def features(
    workspace: SparkWorkspace, params: FeaturesParams, context: TaskContext
) -> FeaturesResult:
    """Aggregate delays, then rank, compare and smooth them with window functions."""
    # Every table reads these columns, so they are kept in memory; the attempt's end frees them.
    flights = workspace.read.parquet("joined/flights").select(*NEEDED).cache()
    tables = build_features(flights, params.min_flights)
    for number, (name, table) in enumerate(tables.items()):
        context.progress(name, number / len(tables))
        workspace.write(table, f"features/{name}", sort_by=KEYS[name])
    written = {name: workspace.read_staged.parquet(f"features/{name}") for name in tables}
    return FeaturesResult(
        rows=count_rows(written),
        ranked_routes=written["by_route"].where("rank IS NOT NULL").count(),
    )


def build_features(flights: DataFrame, min_flights: int) -> dict[str, DataFrame]:
    """All feature tables, by name."""
    plain = {name: summarise(flights, keys, *NAMES.get(name, ())) for name, keys in KEYS.items()}
    return plain | {
        "route_carrier_hour": add_route_windows(plain["route_carrier_hour"]),
        "by_route": add_rank(plain["by_route"], min_flights),
        "by_carrier": add_rank(plain["by_carrier"], min_flights),
        "by_hour": add_change(plain["by_hour"], "hour"),
        "by_month": add_change(plain["by_month"], "month"),
    }


def summarise(flights: DataFrame, keys: list[str], *names: str) -> DataFrame:
    """Counts and delays per group, and what the group is called.

    Delays are whole minutes, so their sums are exact and do not depend on the order of the rows.
    """
    return (
        flights.groupBy(*keys)
        .agg(
            *[F.max(name).alias(name) for name in names],
            F.count(F.lit(1)).alias("flights"),
            F.count_if("cancelled").alias("cancelled"),
            F.count("dep_delay").alias("departed"),
            F.count("arr_delay").alias("arrived"),
            F.count_if(F.col("arr_delay") >= LATE_MINUTES).alias("late"),
            F.sum("dep_delay").alias("dep_delay_minutes"),
            F.sum("arr_delay").alias("arr_delay_minutes"),
            F.percentile("arr_delay", 0.5).alias("median_arr_delay"),
            F.percentile("arr_delay", 0.9).alias("p90_arr_delay"),
        )
        .withColumn("mean_dep_delay", ratio("dep_delay_minutes", "departed", 2))
        .withColumn("mean_arr_delay", ratio("arr_delay_minutes", "arrived", 2))
        .withColumn("late_share", ratio("late", "arrived", 4))
        .withColumn("cancelled_share", ratio("cancelled", "flights", 4))
    )


def add_rank(table: DataFrame, min_flights: int) -> DataFrame:
    """Rank by mean arrival delay, worst first, among those with enough flights."""
    enough = F.col("flights") >= min_flights
    # By whole minutes and counts, not by rounded means: two groups tie only if they are equal.
    worst_first = Window.partitionBy(enough).orderBy(
        (F.col("arr_delay_minutes") / F.col("arrived")).desc_nulls_last()
    )
    everything = Window.partitionBy()
    return table.withColumn("rank", F.when(enough, F.rank().over(worst_first))).withColumn(
        "share_of_flights",
        F.round(F.col("flights") / F.sum("flights").over(everything), 4),
    )


def add_change(table: DataFrame, key: str) -> DataFrame:
    """How the mean departure delay differs from the hour or month before."""
    before = F.lag("mean_dep_delay").over(Window.partitionBy().orderBy(key))
    return table.withColumn("change", F.round(F.col("mean_dep_delay") - before, 2))


def add_route_windows(table: DataFrame) -> DataFrame:
    """Compare each carrier and hour with the whole route, and smooth over neighbouring hours."""
    route = Window.partitionBy("origin", "dest")
    near = Window.partitionBy("origin", "dest", "carrier").orderBy("hour").rangeBetween(-1, 1)
    on_route = over("arr_delay_minutes", route) / over("arrived", route)
    smoothed = over("arr_delay_minutes", near) / over("arrived", near)
    return (
        table.withColumn("share_of_route", F.round(F.col("flights") / over("flights", route), 4))
        .withColumn("delay_vs_route", F.round(F.col("mean_arr_delay") - on_route, 2))
        .withColumn("smoothed_arr_delay", F.round(smoothed, 2))
    )


def over(name: str, window: WindowSpec) -> Column:
    """The sum of a column over a window."""
    return F.sum(name).over(window)


def ratio(part: str, whole: str, digits: int) -> Column:
    """A rounded quotient; null where the whole is 0."""
    return F.round(F.try_divide(F.col(part), F.col(whole)), digits)

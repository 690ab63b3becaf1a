"""Adding up many tables in one Spark job instead of one job each."""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812


def count_rows(tables: Mapping[str, DataFrame]) -> dict[str, int]:
    """How many rows each table has."""
    return _aggregate(tables, F.count(F.lit(1)))


def sum_flights(tables: Mapping[str, DataFrame]) -> dict[str, int]:
    """How many flights each feature table counts."""
    return _aggregate(tables, F.sum("flights"))


def _aggregate(tables: Mapping[str, DataFrame], what: Column) -> dict[str, int]:
    totals = [
        table.agg(what.alias("total")).select(F.lit(name).alias("name"), "total")
        for name, table in tables.items()
    ]
    found = {row["name"]: row["total"] for row in reduce(DataFrame.unionAll, totals).collect()}
    return {name: found[name] for name in tables}

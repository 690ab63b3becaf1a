"""Which rows go into which file, and in what order.

Invariant: with `sort_by`, files depend on the rows alone, not on how the DataFrame happens to be
partitioned, on the number of cores, or on which task was faster (and `parquet_footer` sees to it
that nor do they depend on the JVM). See ADR 0005.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from perago.adapters.spark.write_plan import WritePlan
from perago.domain.errors import TaskTerminalError

ROWS_PER_FILE = 1_000_000
"""How many rows a file of a sorted table without partitions holds, on average."""

PARTITION_TASKS = 16
"""How many tasks write a partitioned table. Fixed: two values that share a directory (null and
"") must share or not share a task on every machine alike."""


def save(df: DataFrame, plan: WritePlan, place: str, *, mode: str) -> None:
    """Have Spark write the rows of a table to a place, arranged as the plan says."""
    with arranged(
        df,
        partition_by=plan.partition_by,
        sort_by=plan.sort_by,
        repartition=plan.repartition,
    ) as rows:
        writer = rows.write.format(plan.file_format).options(**plan.options)
        writer.partitionBy(*plan.partition_by).mode(mode).save(place)


@contextmanager
def arranged(
    df: DataFrame,
    *,
    partition_by: Sequence[str],
    sort_by: Sequence[str],
    repartition: bool = True,
    rows_per_file: int = ROWS_PER_FILE,
) -> Iterator[DataFrame]:
    """The same rows, arranged as they shall be written."""
    check_columns(df, partition_by, "partition_by")
    check_columns(df, sort_by, "sort_by")
    keys = [column(name) for name in partition_by]
    if not sort_by:
        # Else every task writes a file into every partition that it has a row of.
        yield df.repartition(*keys) if keys and repartition else df
        return
    order = [*keys, *_total_order(df, partition_by, sort_by)]
    if keys:
        # All rows of a partition are in one task, so that a partition is one file.
        yield df.repartition(PARTITION_TASKS, *keys).sortWithinPartitions(*order)
        return
    with _counted(df) as rows:
        files = max(1, math.ceil(rows / rows_per_file))
        spread = df.coalesce(1) if files == 1 else df.repartition(files, *map(column, sort_by))
        yield spread.sortWithinPartitions(*order)


def check_columns(df: DataFrame, names: Sequence[str], parameter: str) -> None:
    """Raise for a column that the DataFrame does not have."""
    missing = [name for name in names if name not in df.columns]
    if missing:
        raise TaskTerminalError(
            f"{parameter} names {', '.join(map(repr, missing))}, which the table does not have",
            hint=f"its columns are: {', '.join(df.columns)}",
        )


def is_orderable(data_type: DataType) -> bool:
    """Whether Spark can sort by it."""
    match data_type:
        case MapType() | VariantType():
            return False
        case ArrayType():
            return is_orderable(data_type.elementType)
        case StructType():
            return all(is_orderable(field.dataType) for field in data_type.fields)
        case _:
            return True


def column(name: str) -> Column:
    """A column by its plain name, whatever characters it has."""
    return F.col("`" + name.replace("`", "``") + "`")


def _total_order(
    df: DataFrame, partition_by: Sequence[str], sort_by: Sequence[str]
) -> list[Column]:
    """Sort columns after which only equal rows are left to tie."""
    rest = [name for name in df.columns if name not in {*partition_by, *sort_by}]
    return [
        column(name)
        if is_orderable(df.schema[name].dataType)
        else F.to_json(F.struct(column(name)))
        for name in (*sort_by, *rest)
    ]


@contextmanager
def _counted(df: DataFrame) -> Iterator[int]:
    """Count the rows and keep them meanwhile, so that they are computed once."""
    level = df.storageLevel
    kept_by_caller = level.useMemory or level.useDisk
    if not kept_by_caller:
        df.persist()
    try:
        yield df.count()
    finally:
        if not kept_by_caller:
            df.unpersist()

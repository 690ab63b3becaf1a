"""What is in a table on disk: its types, and rows that break a rule. Read with Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet
from pyarrow import types

from perago.adapters.guardrails.samples import SAMPLE_ROWS, describe_row
from perago.adapters.guardrails.views import Offenders

_COUNT = "count_all"


def open_parquet(files: Sequence[Path], base: Path | None) -> ds.Dataset:
    """Parquet files as one table; `base` is where the names of partitions begin."""
    return _open(files, base, "parquet")


def open_csv(
    files: Sequence[Path], base: Path | None, columns: Sequence[str], delimiter: str, block: int
) -> ds.Dataset:
    """CSV files as one table of text; an empty field is no value, as for Spark."""
    form = ds.CsvFileFormat(
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(columns, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        ),
        read_options=pyarrow.csv.ReadOptions(block_size=block),
    )
    return _open(files, base, form)


def _open(files: Sequence[Path], base: Path | None, form: str | ds.FileFormat) -> ds.Dataset:
    return ds.dataset(
        [str(file) for file in files],
        format=form,
        partitioning=None if base is None else "hive",
        partition_base_dir=None if base is None else str(base),
    )


def find_duplicates(table: ds.Dataset, columns: Sequence[str]) -> Offenders:
    """Values that stand in more than one row; memory grows with these columns alone."""
    counted = (
        table.to_table(columns=list(columns)).group_by(list(columns)).aggregate([([], _COUNT)])
    )
    double = counted.filter(pc.field(_COUNT) > 1)
    sample = [
        f"{describe_row({name: row[name] for name in columns})} ({row[_COUNT]} rows)"
        for row in double.slice(0, SAMPLE_ROWS).to_pylist()
    ]
    return Offenders(double.num_rows, tuple(sample))


def find_nulls(table: ds.Dataset, columns: Sequence[str]) -> Offenders:
    """Rows without a value; memory stays flat."""
    lacking = reduce(or_, (ds.field(name).is_null() for name in columns))
    count = table.count_rows(filter=lacking)
    if count == 0:
        return Offenders(0, ())
    sample = table.head(SAMPLE_ROWS, filter=lacking).to_pylist()
    return Offenders(count, tuple(describe_row(row) for row in sample))


def read_types(file: Path) -> Mapping[str, str]:
    """The columns of a Parquet file, with Spark's names of their types."""
    return {field.name: spark_type(field.type) for field in pyarrow.parquet.read_schema(file)}


_NAMES = (
    (types.is_boolean, "boolean"),
    (types.is_int8, "tinyint"),
    (types.is_int16, "smallint"),
    (types.is_int32, "int"),
    (types.is_int64, "bigint"),
    (types.is_float32, "float"),
    (types.is_float64, "double"),
    (types.is_string, "string"),
    (types.is_large_string, "string"),
    (types.is_binary, "binary"),
    (types.is_large_binary, "binary"),
    (types.is_date, "date"),
    (types.is_timestamp, "timestamp"),
)


def spark_type(kind: pa.DataType) -> str:
    """What Spark calls a type of Arrow's; one that it does not have keeps its own name."""
    for fits, name in _NAMES:
        if fits(kind):
            return name
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_list(kind) or types.is_large_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if types.is_map(kind):
        return f"map<{spark_type(kind.key_type)},{spark_type(kind.item_type)}>"
    if types.is_struct(kind):
        inner = ",".join(f"{field.name}:{spark_type(field.type)}" for field in kind)
        return f"struct<{inner}>"
    if types.is_dictionary(kind):
        return spark_type(kind.value_type)
    return str(kind)

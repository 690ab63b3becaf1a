"""A Delta table on disk: the files that its log names, and no others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet
from pyarrow.fs import LocalFileSystem

from perago.adapters.guardrails.delta_log import DeltaLogError, DeltaSnapshot, read_snapshot
from perago.adapters.guardrails.rules import describe_missing
from perago.adapters.guardrails.table_content import find_duplicates, find_nulls
from perago.adapters.guardrails.views import DELTA_LOG, Offenders, Unreadable
from perago.domain.table_schema import spell_type

_READ_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, DeltaLogError)
"""The latter for a log that is JSON and no log."""

_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_ARROW_TYPES = {
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "date": pa.date32(),
    "double": pa.float64(),
    "float": pa.float32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "short": pa.int16(),
    "string": pa.string(),
    # Without a zone: so Spark shows them too.
    "timestamp": pa.timestamp("us"),
    "timestamp_ntz": pa.timestamp("us"),
}


def find_delta_table(root: Path, path: str) -> DeltaTable | Unreadable:
    """The table at a path that has a Delta log."""
    try:
        snapshot = read_snapshot(root / path / DELTA_LOG)
    except _READ_ERRORS as error:
        return _unreadable(root, path, error)
    return DeltaTable(root=root, path=path, snapshot=snapshot)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTable:
    """A Delta table; its columns are those of the log, and a file that lacks one has no values."""

    root: Path
    path: str
    snapshot: DeltaSnapshot

    def find_missing(self, columns: Sequence[str]) -> str | None:
        return describe_missing(self.path, columns, list(self.snapshot.columns))

    def count_rows(self) -> int | Unreadable:
        try:
            footers = (
                pyarrow.parquet.read_metadata(self.root / self.path / name)
                for name in self.snapshot.files
            )
            return sum(int(footer.num_rows) for footer in footers)
        except _READ_ERRORS as error:
            return _unreadable(self.root, self.path, error)

    def schema(self) -> Mapping[str, str] | Unreadable:
        return {name: _spell(kind) for name, kind in self.snapshot.columns.items()}

    def duplicates(self, columns: Sequence[str]) -> Offenders | Unreadable:
        return self._look(columns, find_duplicates)

    def nulls(self, columns: Sequence[str]) -> Offenders | Unreadable:
        return self._look(columns, find_nulls)

    def _look(
        self, columns: Sequence[str], find: Callable[[ds.Dataset, Sequence[str]], Offenders]
    ) -> Offenders | Unreadable:
        try:
            return find(self._open(), columns)
        except _READ_ERRORS as error:
            return _unreadable(self.root, self.path, error)

    def _open(self) -> ds.Dataset:
        columns = {name: _arrow_type(kind) for name, kind in self.snapshot.columns.items()}
        # The old form of time stamps has nanoseconds, and so no room for the year 3000.
        form = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")
        files = LocalFileSystem()
        fragments = [
            form.make_fragment(
                str(self.root / self.path / name), files, self._partition(values, columns)
            )
            for name, values in self.snapshot.files.items()
        ]
        return ds.FileSystemDataset(fragments, pa.schema(columns.items()), form, files)

    def _partition(
        self, values: Mapping[str, str | None], columns: Mapping[str, pa.DataType]
    ) -> ds.Expression | None:
        """What the log says of a file's partition columns, which the file itself does not have."""
        known = [
            # An empty text is how the log may spell that there is no value.
            ds.field(name) == _value(text, columns[name])
            if (text := values.get(name))
            else ds.field(name).is_null()
            for name in self.snapshot.partition_columns
        ]
        return reduce(and_, known) if known else None


def _value(text: str, kind: pa.DataType) -> pa.Scalar:
    """A value of a partition, as the log spells it: a moment, in either of two ways."""
    if pa.types.is_timestamp(kind) and text.endswith("Z"):
        return pa.scalar(text).cast(pa.timestamp("us", "UTC")).cast(kind)
    return pa.scalar(text).cast(kind)


def _unreadable(root: Path, path: str, error: Exception) -> Unreadable:
    text = (str(error).splitlines() or [type(error).__name__])[0].replace(f"{root}/", "")
    return Unreadable(f"{path}: the Delta table cannot be read: {text}")


def _spell(kind: Any) -> str:
    """A type of the log in Spark's words."""
    match kind:
        case {"type": "struct", "fields": fields}:
            inner = ",".join(f"{field['name']}:{_spell(field['type'])}" for field in fields)
            return f"struct<{inner}>"
        case {"type": "array", "elementType": element}:
            return f"array<{_spell(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{_spell(key)},{_spell(value)}>"
        case _:
            return spell_type(str(kind))


def _arrow_type(kind: Any) -> pa.DataType:
    match kind:
        case {"type": "struct", "fields": fields}:
            return pa.struct([(field["name"], _arrow_type(field["type"])) for field in fields])
        case {"type": "array", "elementType": element}:
            return pa.list_(_arrow_type(element))
        case {"type": "map", "keyType": key, "valueType": value}:
            return pa.map_(_arrow_type(key), _arrow_type(value))
        case str() if (decimal := _DECIMAL.fullmatch(kind)) is not None:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        case str() if kind in _ARROW_TYPES:
            return _ARROW_TYPES[kind]
        case _:
            raise DeltaLogError(f"it has a column of type {kind}, which only Spark reads")

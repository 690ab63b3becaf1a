"""Parquet and CSV tables on disk: their columns and how many rows they have.

Parquet is read by its footers alone, CSV as a stream: memory does not grow with the data.
"""

from __future__ import annotations

import csv
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyarrow.dataset import Dataset

from perago.adapters.guardrails.rules import describe_missing
from perago.adapters.guardrails.table_content import (
    find_duplicates,
    find_nulls,
    open_csv,
    open_parquet,
    read_types,
)
from perago.adapters.guardrails.views import ANY_TYPE, Offenders, Unreadable, is_hidden

CSV_BLOCK_BYTES = 1024 * 1024
"""The longest row. Arrow reads some forty such blocks ahead; more would take more memory."""

PARQUET_MAGIC = b"PAR1"

READ_ERRORS = (pa.ArrowException, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(ABC):
    """One file of a table; `partition` holds the keys that its directories spell."""

    name: str
    place: Path
    partition: tuple[str, ...]

    def columns(self) -> list[str] | Unreadable:
        """The columns of the table as this file has them, partition keys included."""
        try:
            return [*self._read_columns(), *self.partition]
        except READ_ERRORS as error:
            return self._unreadable(error)

    def rows(self) -> int | Unreadable:
        """How many rows this file has."""
        try:
            return self._read_rows()
        except READ_ERRORS as error:
            return self._unreadable(error)

    @abstractmethod
    def types(self) -> Mapping[str, str] | Unreadable:
        """The columns with their types; those of partitions fit any."""

    @abstractmethod
    def open_all(self, files: Sequence[Path], base: Path | None) -> Dataset:
        """These files, all of this kind, as one table."""

    @abstractmethod
    def _read_columns(self) -> list[str]:
        """The columns in the file itself."""

    @abstractmethod
    def _read_rows(self) -> int:
        """The rows in the file itself."""

    def _unreadable(self, error: Exception) -> Unreadable:
        text = first_line(error).replace(str(self.place), self.name)
        return Unreadable(f"{self.name}: the file cannot be read: {text}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetPart(Part):
    """A Parquet file."""

    def _read_columns(self) -> list[str]:
        return list(pyarrow.parquet.read_schema(self.place).names)

    def _read_rows(self) -> int:
        return int(pyarrow.parquet.read_metadata(self.place).num_rows)

    def open_all(self, files: Sequence[Path], base: Path | None) -> Dataset:
        return open_parquet(files, base)

    def types(self) -> Mapping[str, str] | Unreadable:
        try:
            return {**read_types(self.place), **dict.fromkeys(self.partition, ANY_TYPE)}
        except READ_ERRORS as error:
            return self._unreadable(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvPart(Part):
    """A CSV file with a header; an empty one has no columns and no rows."""

    def _read_columns(self) -> list[str]:
        header = self._lone_header()
        if header is not None:
            return header
        with self._open() as reader:
            return list(reader.schema.names)

    def _read_rows(self) -> int:
        if self._lone_header() is not None:
            return 0
        columns = self._read_columns()
        # As bytes: nothing is inferred, so no value can be of the wrong type halfway through.
        with self._open(dict.fromkeys(columns, pa.binary())) as reader:
            return sum(batch.num_rows for batch in reader)

    def types(self) -> Unreadable:
        """A CSV file has names only."""
        return Unreadable(f"{self.name}: a CSV file has no types; use require_columns")

    def open_all(self, files: Sequence[Path], base: Path | None) -> Dataset:
        return open_csv(files, base, self._read_columns(), self._delimiter, CSV_BLOCK_BYTES)

    def _lone_header(self) -> list[str] | None:
        """The columns of a file without a line break, which Arrow does not read."""
        if self.place.suffix == ".gz":
            return None
        with self.place.open("rb") as file:
            first = file.read(CSV_BLOCK_BYTES)
        if b"\n" in first or b"\r" in first:
            return None
        text = first.decode("utf-8-sig", "backslashreplace")
        return next(csv.reader([text], delimiter=self._delimiter), [])

    @property
    def _delimiter(self) -> str:
        return "\t" if self.place.name.removesuffix(".gz").endswith(".tsv") else ","

    def _open(self, types: dict[str, pa.DataType] | None = None) -> pyarrow.csv.CSVStreamingReader:
        return pyarrow.csv.open_csv(
            self.place,
            read_options=pyarrow.csv.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True
            ),
            convert_options=pyarrow.csv.ConvertOptions(column_types=types, check_utf8=False),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table: at least one part, all of one format; `base` is its directory, where it has one."""

    parts: Sequence[Part]
    base: Path | None = None

    def find_missing(self, columns: Sequence[str]) -> str | None:
        """The first file that lacks a column: where one does, the column is full of holes."""
        for part in self.parts:
            found = part.columns()
            if isinstance(found, Unreadable):
                return found.reason
            missing = describe_missing(part.name, columns, found)
            if missing is not None:
                return missing
        return None

    def count_rows(self) -> int | Unreadable:
        """The rows of all parts."""
        total = 0
        for part in self.parts:
            rows = part.rows()
            if isinstance(rows, Unreadable):
                return rows
            total += rows
        return total

    def schema(self) -> Mapping[str, str] | Unreadable:
        """The columns of all parts, which must be the same."""
        known: Mapping[str, str] = {}
        for part in self.parts:
            found = part.types()
            if isinstance(found, Unreadable):
                return found
            if known and found != known:
                return Unreadable(f"{part.name}: its columns are not those of {self.parts[0].name}")
            known = found
        return known

    def duplicates(self, columns: Sequence[str]) -> Offenders | Unreadable:
        """Values that more than one row has."""
        return self._look(columns, find_duplicates)

    def nulls(self, columns: Sequence[str]) -> Offenders | Unreadable:
        """Rows that lack a value."""
        return self._look(columns, find_nulls)

    def _look(
        self, columns: Sequence[str], find: Callable[[Dataset, Sequence[str]], Offenders]
    ) -> Offenders | Unreadable:
        first = self.parts[0]
        try:
            return find(first.open_all([part.place for part in self.parts], self.base), columns)
        except READ_ERRORS as error:
            return Unreadable(f"{first.name}: the table cannot be read: {first_line(error)}")


def first_line(error: Exception) -> str:
    """What Arrow says, without the row that a CSV parser stumbled over."""
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return re.sub(r"(got \d+):.*", r"\1", first)


def find_table(root: Path, path: str, files: Sequence[str]) -> Table | Unreadable:
    """The table at a path, which is a file or a directory; `files` are those at or below it.

    In a directory, names with a leading `_` or `.` are no data, as in Spark and Hive.
    """
    if path in files:
        try:
            return Table(parts=[_part(root, path, "", _format_of_file(root / path))])
        except OSError as error:
            return Unreadable(f"{path}: the file cannot be read: {error.strerror}")
    data = [(name, form) for name in files if (form := _format_of_data(name, path)) is not None]
    formats = {form for _, form in data}
    if not data:
        return Unreadable(f"{path}: there is no Parquet or CSV file in it")
    if len(formats) > 1:
        return Unreadable(f"{path}: it mixes Parquet and CSV files")
    return Table(parts=[_part(root, name, path, form) for name, form in data], base=root / path)


def _part(root: Path, name: str, table: str, form: type[Part]) -> Part:
    directories = name.removeprefix(f"{table}/").split("/")[:-1] if table else []
    return form(
        name=name,
        place=root / name,
        partition=tuple(part.partition("=")[0] for part in directories if "=" in part),
    )


def _format_of_data(name: str, table: str) -> type[Part] | None:
    if is_hidden(name.removeprefix(f"{table}/").split("/")):
        return None
    return _format_of_name(name)


def _format_of_name(name: str) -> type[Part] | None:
    if name.endswith(".parquet"):
        return ParquetPart
    return CsvPart if name.removesuffix(".gz").endswith((".csv", ".tsv")) else None


def _format_of_file(place: Path) -> type[Part]:
    """By its name, else by its content: a table that is named outright may be called anything."""
    form = _format_of_name(place.name)
    if form is not None:
        return form
    with place.open("rb") as file:
        return ParquetPart if file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC else CsvPart

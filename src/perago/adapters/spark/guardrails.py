"""Guardrails on Spark: for workspaces whose files are in no directory of this machine."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, TypeGuard

from perago.adapters.guardrails.rules import describe_missing, find_violations
from perago.adapters.guardrails.samples import SAMPLE_ROWS, describe_row
from perago.adapters.guardrails.views import (
    ANY_TYPE,
    Offenders,
    TableView,
    Unreadable,
    explain_inside_delta,
    is_delta_table,
    is_hidden,
)
from perago.adapters.spark.table_files import partition_keys
from perago.domain.errors import EnvironmentUnfitError, TaskTerminalError
from perago.domain.guardrail import Guardrail
from perago.domain.table_schema import spell_type
from perago.ports import SparkWorkspace

if TYPE_CHECKING:
    from pyspark.errors.exceptions.connect import SparkConnectGrpcException
    from pyspark.sql import DataFrame, DataFrameReader, Row

_COUNT = "__count"
_FORMATS = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv"}
_DELTA = "delta"
_BAD_FILE = re.compile(
    r"FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|CANNOT_MERGE|MALFORMED_|DELTA_"
    r"|is not a Parquet file|FileNotFoundException|IllegalArgumentException"
)
_OUT_OF_REACH = re.compile(
    r"\b\w*(AWS|Sdk|S3|AccessDenied|Socket|Connect|SSL|UnknownHost|NoRouteToHost|Timeout)"
    r"\w*Exception\b|\bOutOfMemoryError\b"
)
"""What S3A, the SDK below it and Java call trouble with the store, the way there, or memory."""


class SparkGuardrailEvaluator:
    """Checks guardrails against the input side of a Spark workspace."""

    def violations(self, guardrails: Sequence[Guardrail], workspace: SparkWorkspace) -> list[str]:
        return find_violations(guardrails, _SparkView(workspace))


class _SparkView:
    """The files of a Spark workspace, listed at most once however many rules ask."""

    def __init__(self, workspace: SparkWorkspace) -> None:
        self._workspace = workspace
        self._names: list[str] | None = None

    @property
    def place(self) -> SparkWorkspace:
        return self._workspace

    def names(self) -> list[str]:
        if self._names is None:
            self._names = self._workspace.ls()
        return self._names

    def has_file(self, path: str) -> bool:
        return path in self.names()

    def has_directory(self, path: str) -> bool:
        return any(name.startswith(f"{path}/") for name in self.names())

    def table(self, path: str) -> TableView | Unreadable:
        files = [name for name in self.names() if name == path or name.startswith(f"{path}/")]
        if not files:
            return Unreadable(f"{path}: there is no such table")
        inside = explain_inside_delta(path, self.names())
        if inside is not None:
            return inside
        if is_delta_table(path, files):
            return _SparkTable(self._workspace, path, [], _DELTA)
        visible = [name for name in files if name == path or not _is_hidden(name, path)]
        data = {name: suffix for name in visible if (suffix := _suffix(name)) is not None}
        suffixes = set(data.values())
        if not suffixes:
            return Unreadable(f"{path}: there is no Parquet or CSV file in it")
        if len(suffixes) > 1:
            return Unreadable(f"{path}: it mixes {' and '.join(sorted(suffixes))} files")
        return _SparkTable(self._workspace, path, sorted(data), suffixes.pop())


class _SparkTable:
    """A table as Spark reads it; of Parquet files that differ, it has the columns of all.

    `kind` is the suffix of its files, or says that it is a Delta table.
    """

    def __init__(
        self, workspace: SparkWorkspace, path: str, files: Sequence[str], kind: str
    ) -> None:
        self._workspace = workspace
        self._path = path
        self._files = list(files)
        self._kind = kind

    def find_missing(self, columns: Sequence[str]) -> str | None:
        table = self._frame
        if isinstance(table, Unreadable):
            return table.reason
        return describe_missing(self._path, columns, table.columns)

    def count_rows(self) -> int | Unreadable:
        table = self._frame
        if isinstance(table, Unreadable):
            return table
        try:
            return table.count()
        except _read_errors() as error:
            return self._unreadable(error)

    def schema(self) -> Mapping[str, str] | Unreadable:
        table = self._frame
        if isinstance(table, Unreadable):
            return table
        if _FORMATS.get(self._kind) == "csv":
            return Unreadable(f"{self._path}: a CSV file has no types; use require_columns")
        below = [name.removeprefix(f"{self._path}/") for name in self._files]
        partitions = partition_keys(below) or ()
        return {
            field.name: ANY_TYPE
            if field.name in partitions
            else spell_type(field.dataType.simpleString())
            for field in table.schema.fields
        }

    def duplicates(self, columns: Sequence[str]) -> Offenders | Unreadable:
        from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

        def find(table: DataFrame) -> Offenders:
            keys = [column(name) for name in columns]
            double = (
                table.groupBy(*keys).agg(F.count(F.lit(1)).alias(_COUNT)).where(f"{_COUNT} > 1")
            )
            sample = [
                f"{describe_row({name: row[name] for name in columns})} ({row[_COUNT]} rows)"
                for row in _sample_of(double)
            ]
            return Offenders(double.count() if sample else 0, tuple(sample))

        from perago.adapters.spark.layout import column

        return self._look(find)

    def nulls(self, columns: Sequence[str]) -> Offenders | Unreadable:
        from perago.adapters.spark.layout import column

        def find(table: DataFrame) -> Offenders:
            lacking = table.where(reduce(or_, (column(name).isNull() for name in columns)))
            sample = [describe_row(row.asDict()) for row in _sample_of(lacking)]
            return Offenders(lacking.count() if sample else 0, tuple(sample))

        return self._look(find)

    def _look(self, find: Callable[[DataFrame], Offenders]) -> Offenders | Unreadable:
        table = self._frame
        if isinstance(table, Unreadable):
            return table
        try:
            return find(table)
        except _read_errors() as error:
            return self._unreadable(error)

    @cached_property
    def _frame(self) -> DataFrame | Unreadable:
        """Opened once: that alone lists files and reads footers."""
        reader = self._workspace.read
        if self._kind == _DELTA:
            return self._open_delta(reader)
        # By their names: what else lies in the directory is none of the table.
        if self._files != [self._path]:
            reader = reader.option("basePath", self._path)
        try:
            if _FORMATS[self._kind] == "parquet":
                # Else a column that the first of them lacks would be taken for missing.
                table = reader.option("mergeSchema", "true").parquet(*self._files)
            else:
                separator = "\t" if self._kind == ".tsv" else ","
                # Else the header of the first file would be taken for that of all.
                table = reader.csv(
                    self._files,
                    header=True,
                    sep=separator,
                    multiLine=True,
                    escape='"',
                    enforceSchema=False,
                )
            # A server opens it only when it is asked for something.
            _ = table.schema
        except _read_errors() as error:
            return self._unreadable(error)
        return table

    def _open_delta(self, reader: DataFrameReader) -> DataFrame | Unreadable:
        try:
            table = reader.format("delta").load(self._path)
            _ = table.schema
        except TaskTerminalError as error:
            return Unreadable(
                f"{self._path}: it is a Delta table, and {error.message}; {error.hint}"
            )
        except _read_errors() as error:
            return self._unreadable(error)
        return table

    def _unreadable(self, error: Exception) -> Unreadable:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        first = next((line.strip() for line in lines if "Exception: " in line), lines[0])
        if not _is_about_files(error):
            # No judgement of the files, so that another attempt may judge them.
            raise EnvironmentUnfitError(
                f"Spark could not read {self._path} to check it: {first}",
                hint="see whether Spark and the store answer; the attempt can be tried again",
            ) from error
        return Unreadable(f"{self._path}: the table cannot be read: {first}")


def _read_errors() -> tuple[type[Exception], ...]:
    """What a file that cannot be read raises: Spark's own errors, or what the JVM says."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JError)


def _is_about_files(error: Exception) -> bool:
    """Whether an error says that files are not as they should be, rather than out of reach."""
    from pyspark.errors import AnalysisException

    text = str(error)
    if _OUT_OF_REACH.search(f"{text}\n{_java_trace(error)}"):
        return False
    return isinstance(error, AnalysisException) or _BAD_FILE.search(text) is not None


def _java_trace(error: Exception) -> str:
    """What brought it about in the JVM, which an error of Spark's does not say of itself."""
    from pyspark.errors.exceptions.captured import CapturedException

    if isinstance(error, CapturedException):
        return str(error._stackTrace)  # noqa: SLF001 - it has no other way to ask
    if _is_of_connect(error):
        return error.getStackTrace() or ""
    return ""


def _is_of_connect(error: Exception) -> TypeGuard[SparkConnectGrpcException]:
    """Without an import of what Connect needs, where it is not used."""
    connect = sys.modules.get("pyspark.errors.exceptions.connect")
    return connect is not None and isinstance(error, connect.SparkConnectGrpcException)


def _is_hidden(name: str, table: str) -> bool:
    return is_hidden(name.removeprefix(f"{table}/").split("/"))


def _suffix(name: str) -> str | None:
    plain = name.removesuffix(".gz")
    return next((suffix for suffix in _FORMATS if plain.endswith(suffix)), None)


def _sample_of(rows: DataFrame) -> list[Row]:
    """Collect some rows, with times in the session's time zone.

    pyspark would convert them to the time zone of this process.
    """
    from pyspark.sql.types import TimestampType

    from perago.adapters.spark.layout import column

    shown = [
        column(field.name).cast("timestamp_ntz").alias(field.name)
        if isinstance(field.dataType, TimestampType)
        else column(field.name)
        for field in rows.schema.fields
    ]
    return rows.limit(SAMPLE_ROWS).select(*shown).collect()

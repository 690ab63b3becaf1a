"""A Spark workspace over two local directories: the input as it was, and what will be published.

Invariant: Spark itself never writes into the published directory. A table is written to scratch
space, renamed, and moved in as a whole, so that a failed write changes nothing and no marker,
checksum or temporary file is ever seen. See ADR 0005.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from perago.adapters.spark.parquet_footer import normalise_footer
from perago.adapters.spark.paths import check_path, spark_path
from perago.adapters.spark.table_files import (
    add_to_table,
    list_files,
    partition_keys,
    plan_names,
    rename_into,
    replace_table,
)
from perago.domain.errors import TaskTerminalError
from perago.ports.spark import WriteMode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

FILE_FORMATS = frozenset({"csv", "json", "orc", "parquet", "text"})
"""The formats whose tables are plain files and nothing else."""

_WRITE_OPTIONS = {"csv": {"header": "true"}}


class LocalSparkWorkspace:
    """Implements `SparkWorkspace`; read-only when both directories are the same."""

    def __init__(
        self, *, spark: SparkSession, input_directory: Path, output_directory: Path, scratch: Path
    ) -> None:
        self._spark = spark
        self._input = input_directory.resolve()
        self._output = output_directory.resolve()
        self._scratch = scratch
        self._lock = threading.Lock()

    @property
    def spark(self) -> SparkSession:
        return self._spark

    @property
    def read(self) -> DataFrameReader:
        return self._reader(self._input)

    @property
    def read_staged(self) -> DataFrameReader:
        return self._reader(self._output)

    def write(
        self,
        df: DataFrame,
        path: str,
        *,
        mode: WriteMode = "overwrite",
        partition_by: Sequence[str] = (),
        format: str = "parquet",  # noqa: A002 - Spark's own word for it
        sort_by: Sequence[str] = (),
    ) -> None:
        """Keep the port's contract; CSV files get a header line.

        A partitioned table without rows has no files, as always with Spark.
        """
        from perago.adapters.spark.layout import arranged

        target = self._writable(path)
        _check_write(path, target, mode, format, partition_by)
        scratch = self._scratch / uuid4().hex
        written = scratch / "written"
        try:
            with arranged(df, partition_by=partition_by, sort_by=sort_by) as rows:
                rows.write.format(format).options(**_WRITE_OPTIONS.get(format, {})).partitionBy(
                    *partition_by
                ).save(spark_path(written, ""))
            with self._lock:
                self._move_in(scratch, target, keeps_old=mode == "append")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def uri_in(self, path: str = "") -> str:
        return spark_path(self._input, check_path(path, root_allowed=True))

    def uri_out(self, path: str = "") -> str:
        self._refuse_if_read_only(path)
        return spark_path(self._output, check_path(path, root_allowed=True))

    def ls(self, path: str = "", *, staged: bool = False) -> list[str]:
        root = self._output if staged else self._input
        checked = check_path(path, root_allowed=True)
        place = root / checked
        if place.is_file():
            return [checked]
        parent = f"{checked}/" if checked else ""
        return [parent + name for name in list_files(place)]

    def delete(self, path: str) -> None:
        target = self._writable(path)
        if target.is_dir():
            shutil.rmtree(target)
        elif target.exists():
            target.unlink()
        else:
            raise TaskTerminalError(
                f"there is nothing to delete at {path!r}",
                hint="workspace.ls(path, staged=True) tells what is there",
            )

    def _reader(self, root: Path) -> DataFrameReader:
        from perago.adapters.spark.reader import RootedReader

        return RootedReader(self._spark, root)

    def _writable(self, path: str) -> Path:
        self._refuse_if_read_only(path)
        return self._output / check_path(path)

    def _refuse_if_read_only(self, path: str) -> None:
        if self._input == self._output:
            raise TaskTerminalError(
                f"a read-only task cannot write or delete {path!r}",
                hint="declare the task with WorkspaceSpec(read_only=False), or only read",
            )

    def _move_in(self, scratch: Path, target: Path, *, keeps_old: bool) -> None:
        existing = list_files(target) if keeps_old else []
        written, renamed = scratch / "written", scratch / "renamed"
        names = plan_names(list_files(written), existing)
        rename_into(written, names, renamed)
        for name in names.values():
            if name.endswith(".parquet"):
                normalise_footer(renamed / name)
        if keeps_old:
            add_to_table(renamed, target)
        else:
            replace_table(renamed, target, set_aside=scratch / "replaced")


def _check_write(
    path: str, target: Path, mode: WriteMode, file_format: str, partition_by: Sequence[str]
) -> None:
    if file_format not in FILE_FORMATS:
        raise TaskTerminalError(
            f"write() cannot write format {file_format!r}",
            hint=(
                f"it knows {', '.join(sorted(FILE_FORMATS))}; for a table format of its own, use "
                "df.write and workspace.uri_out(path)"
            ),
        )
    above = next((parent for parent in target.parents if parent.exists()), None)
    if above is not None and not above.is_dir():
        raise TaskTerminalError(
            f"cannot write {path!r}: {above.name!r} is a file, not a directory",
            hint="delete the file first, or write to another path",
        )
    if mode == "error" and target.exists():
        raise TaskTerminalError(
            f"{path!r} exists, and mode is 'error'",
            hint="use mode='overwrite' to replace it or mode='append' to add to it",
        )
    if mode == "append" and target.exists():
        _check_append(path, target, tuple(partition_by))


def _check_append(path: str, target: Path, partition_by: tuple[str, ...]) -> None:
    if target.is_file():
        raise TaskTerminalError(
            f"cannot append to {path!r}: it is a file",
            hint="append to a table, which is a directory, or use mode='overwrite'",
        )
    keys = partition_keys(list_files(target))
    if keys is not None and keys != partition_by:
        raise TaskTerminalError(
            f"cannot append to {path!r}: it is partitioned by {list(keys)}, "
            f"and partition_by is {list(partition_by)}",
            hint="a table whose files lie in different ways cannot be read back",
        )

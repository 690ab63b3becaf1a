"""A Spark workspace over two local directories: the input as it was, and what will be published.

Invariant: of plain files, Spark itself never writes into the published directory. A table is
written to scratch space, renamed, and moved in as a whole, so that a failed write changes nothing
and no marker, checksum or temporary file is ever seen. See ADR 0005. A Delta table is written in
place; of a write that fails, files that its log does not name may be left. See ADR 0012.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from perago.adapters.spark.delta import check_table_format
from perago.adapters.spark.open_writes import OpenWrites
from perago.adapters.spark.parquet_footer import normalise_footer
from perago.adapters.spark.paths import check_path, spark_path
from perago.adapters.spark.roots import LocalRoot
from perago.adapters.spark.scratch import SCRATCH_TAG
from perago.adapters.spark.table_files import (
    add_to_table,
    list_files,
    plan_names,
    rename_into,
    replace_table,
)
from perago.adapters.spark.write_plan import WritePlan, file_above_error, read_only_error
from perago.domain.errors import TaskTerminalError
from perago.ports.spark import WriteMode
from perago.system.directories import make_own_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession


class LocalSparkWorkspace:
    """Implements `SparkWorkspace`; read-only when both directories are the same."""

    def __init__(
        self,
        *,
        spark: SparkSession,
        input_directory: Path,
        output_directory: Path,
        scratch: Path,
        open_writes: OpenWrites,
    ) -> None:
        self._spark = spark
        self._open_writes = open_writes
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
        repartition: bool = True,
    ) -> None:
        """Keep the port's contract; CSV files get a header line.

        A partitioned table without rows has no files, as always with Spark.
        """
        from perago.adapters.spark.layout import save

        target = self._writable(path)
        plan = WritePlan(
            path=path,
            mode=mode,
            file_format=format,
            partition_by=tuple(partition_by),
            sort_by=tuple(sort_by),
            repartition=repartition,
        )
        _refuse_file_above(path, target)
        plan.check_target(list_files(target), is_file=target.is_file())
        if plan.is_delta:
            check_table_format(format, self._spark)
        scratch = self._scratch / uuid4().hex
        make_own_directory(self._scratch, SCRATCH_TAG).close()
        self._open_writes.begin(path)
        try:
            if plan.is_delta:
                save(df, plan, self.uri_out(path), mode=plan.delta_mode)
                return
            save(df, plan, spark_path(scratch / "written", ""), mode="error")
            with self._lock:
                self._move_in(scratch, target, plan)
        finally:
            # Failed or not: it is in place as a whole, or nothing has changed.
            self._open_writes.end(path)
            with suppress(OSError), make_own_directory(self._scratch, SCRATCH_TAG) as own:
                own.remove_tree(scratch.name)

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
        if not target.exists():
            raise TaskTerminalError(
                f"there is nothing to delete at {path!r}",
                hint="workspace.ls(path, staged=True) tells what is there",
            )
        self._open_writes.begin(path)
        with make_own_directory(self._scratch, SCRATCH_TAG) as own:
            # Moved away as a whole, so that no part of it is left, and deleted where it then is.
            taken = uuid4().hex
            target.rename(self._scratch / taken)
            self._open_writes.end(path)
            with suppress(OSError):
                own.remove_tree(taken)

    def _reader(self, root: Path) -> DataFrameReader:
        from perago.adapters.spark.reader import rooted_reader

        return rooted_reader(self._spark, LocalRoot(root))

    def _writable(self, path: str) -> Path:
        self._refuse_if_read_only(path)
        return self._output / check_path(path)

    def _refuse_if_read_only(self, path: str) -> None:
        if self._input == self._output:
            raise read_only_error(path)

    def _move_in(self, scratch: Path, target: Path, plan: WritePlan) -> None:
        written, renamed = scratch / "written", scratch / "renamed"
        files, existing = list_files(written), list_files(target)
        replaced = set(plan.find_replaced(existing, files))
        names = plan_names(files, [name for name in existing if name not in replaced])
        rename_into(written, names, renamed)
        for name in names.values():
            if name.endswith(".parquet"):
                normalise_footer(renamed / name)
        if plan.mode in ("overwrite", "error"):
            replace_table(renamed, target, set_aside=scratch / "replaced")
        else:
            add_to_table(renamed, target, instead_of=replaced, set_aside=scratch / "replaced")


def _refuse_file_above(path: str, target: Path) -> None:
    above = next((parent for parent in target.parents if parent.exists()), None)
    if above is not None and not above.is_dir():
        raise file_above_error(path, above.name)

"""A Spark workspace on the store itself: the input commit, and the staging branch.

Invariant: a write of plain files adds some beside those that are there and only then takes away
what it replaces, so one that Spark fails at changes nothing, and one that ends in between stays
open, which keeps the attempt from being published. So does a deletion that fails. Spark's own
overwrite would delete first; and the committer that is right for S3 (magic) cannot replace
partitions by itself. See ADR 0011. Of a write to a Delta table that fails, files that its log does
not name may be left. See ADR 0012.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from perago.adapters.spark.delta import check_table_format
from perago.adapters.spark.open_writes import OpenWrites
from perago.adapters.spark.paths import check_path
from perago.adapters.spark.roots import StoreRoot
from perago.adapters.spark.write_plan import WritePlan, file_above_error, read_only_error
from perago.domain.errors import TaskTerminalError
from perago.domain.ids import BranchName, ObjectPath
from perago.domain.workspace import ObjectEntry, is_reserved
from perago.ports import DirectPlace, DirectStore
from perago.ports.spark import WriteMode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession


class DirectSparkWorkspace:
    """Implements `SparkWorkspace`; read-only without a staging branch."""

    def __init__(
        self,
        *,
        spark: SparkSession,
        place: DirectPlace,
        store: DirectStore,
        open_writes: OpenWrites,
    ) -> None:
        self._spark = spark
        self._place = place
        self._store = store
        self._open_writes = open_writes

    @property
    def spark(self) -> SparkSession:
        return self._spark

    @property
    def read(self) -> DataFrameReader:
        return self._reader(staged=False)

    @property
    def read_staged(self) -> DataFrameReader:
        return self._reader(staged=True)

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
        """Keep the port's contract; CSV files get a header line."""
        plan = WritePlan(
            path=path,
            mode=mode,
            file_format=format,
            partition_by=tuple(partition_by),
            sort_by=tuple(sort_by),
            repartition=repartition,
        )
        table = check_path(path)
        self._staging(path)
        self._refuse_file_above(table)
        is_file, before = self._is_file(table), self._table_files(table)
        plan.check_target(before, is_file=is_file)
        if plan.is_delta:
            check_table_format(format, self._spark)
            self._save_delta(df, plan, table)
            return
        if is_file:
            raise TaskTerminalError(
                f"cannot write a table to {path!r}: it is a file",
                hint="delete the file first, or write to another path",
            )
        self._replace(df, plan, table, before)

    def uri_in(self, path: str = "") -> str:
        return self._root(staged=False).uri(check_path(path, root_allowed=True))

    def uri_out(self, path: str = "") -> str:
        self._staging(path)
        return self._root(staged=True).uri(check_path(path, root_allowed=True))

    def ls(self, path: str = "", *, staged: bool = False) -> list[str]:
        checked = check_path(path, root_allowed=True)
        names = self._names(checked, staged=staged)
        return [name for name in names if _is_at_or_below(name, checked)]

    def delete(self, path: str) -> None:
        staging, checked = self._staging(path), check_path(path)
        found = self.ls(checked, staged=True)
        if not found:
            raise TaskTerminalError(
                f"there is nothing to delete at {path!r}",
                hint="workspace.ls(path, staged=True) tells what is there",
            )
        self._open_writes.begin(checked)
        # Page by page: one that fails, or is under way, has taken away a part.
        self._remove(staging, found)
        self._open_writes.end(checked)

    def _replace(self, df: DataFrame, plan: WritePlan, table: str, before: Sequence[str]) -> None:
        from perago.adapters.spark.layout import save

        self._open_writes.begin(table)
        try:
            save(df, plan, self.uri_out(table), mode="append")
        except BaseException:
            # A committer that failed takes back what it had added, if it can.
            if not self._added(table, before):
                self._open_writes.end(table)
            raise
        replaced = plan.find_replaced(before, self._added(table, before))
        self._remove(self._staging(table), [f"{table}/{name}" for name in replaced])
        self._open_writes.end(table)

    def _added(self, table: str, before: Sequence[str]) -> list[str]:
        return sorted(set(self._table_files(table)) - set(before))

    def _save_delta(self, df: DataFrame, plan: WritePlan, table: str) -> None:
        from perago.adapters.spark.layout import save

        self._open_writes.begin(table)
        try:
            save(df, plan, self.uri_out(table), mode=plan.delta_mode)
        finally:
            # Failed or not: either its log names all of the files, or none.
            self._open_writes.end(table)

    def _reader(self, *, staged: bool) -> DataFrameReader:
        from perago.adapters.spark.reader import rooted_reader

        return rooted_reader(self._spark, self._root(staged=staged))

    def _root(self, *, staged: bool) -> StoreRoot:
        place = self._place
        ref: str = place.staging if staged and place.staging is not None else place.ref
        return StoreRoot(place, ref, lambda path: bool(self.ls(path, staged=staged)))

    def _staging(self, path: str) -> BranchName:
        if self._place.staging is None:
            raise read_only_error(path)
        return self._place.staging

    def _names(self, path: str, *, staged: bool) -> list[str]:
        """The files whose path begins so, relative to the prefix; markers are no files."""
        entries = self._entries(path, staged=staged)
        names = (self._place.prefix.relative(entry.path) for entry in entries)
        return [name for name in names if not name.endswith("/") and not is_reserved(name)]

    def _entries(self, path: str, *, staged: bool) -> Iterator[ObjectEntry]:
        place, key = self._place, self._place.prefix.join(path)
        if staged and place.staging is not None:
            return self._store.list_staged(place.repository, place.staging, key)
        return self._store.list_objects(place.repository, place.ref, key)

    def _table_files(self, table: str) -> list[str]:
        """The files of a table on the staging branch, relative to it."""
        return [name.removeprefix(f"{table}/") for name in self._names(f"{table}/", staged=True)]

    def _is_file(self, path: str) -> bool:
        # In the order of paths, it would come before all that begin with it.
        first = next(self._entries(path, staged=True), None)
        return first is not None and first.path == self._place.prefix.join(path)

    def _refuse_file_above(self, path: str) -> None:
        above = path.rpartition("/")[0]
        while above:
            if self._is_file(above):
                raise file_above_error(path, above)
            above = above.rpartition("/")[0]

    def _remove(self, staging: BranchName, names: Sequence[str]) -> None:
        if names:
            paths = [ObjectPath(self._place.prefix.join(name)) for name in names]
            self._store.remove_staged(self._place.repository, staging, paths)


def _is_at_or_below(name: str, path: str) -> bool:
    return not path or name == path or name.startswith(f"{path}/")

"""What a write may do, and which files it replaces: pure, the same for every kind of workspace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from perago.adapters.guardrails.views import is_hidden
from perago.adapters.spark.delta import iceberg_error, is_delta, is_delta_log
from perago.adapters.spark.table_files import partition_keys
from perago.domain.errors import TaskTerminalError
from perago.ports.spark import WriteMode

FILE_FORMATS = frozenset({"csv", "json", "orc", "parquet", "text"})
"""The formats whose tables are plain files and nothing else."""

_WRITE_OPTIONS = {"csv": {"header": "true"}}

_DELTA_MODES = {"overwrite_partitions": "overwrite"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """One write, checked as far as it can be without looking at the workspace."""

    path: str
    mode: WriteMode
    file_format: str
    partition_by: tuple[str, ...]
    sort_by: tuple[str, ...]
    repartition: bool

    def __post_init__(self) -> None:
        if self.file_format == "iceberg":
            raise iceberg_error()
        if self.file_format not in FILE_FORMATS and not self.is_delta:
            raise TaskTerminalError(
                f"write() cannot write format {self.file_format!r}",
                hint=(
                    f"it knows {', '.join(sorted({*FILE_FORMATS, 'delta'}))}; for another, use "
                    "df.write and workspace.uri_out(path)"
                ),
            )
        if self.mode == "overwrite_partitions" and not self.partition_by:
            raise TaskTerminalError(
                f"cannot overwrite partitions of {self.path!r}: partition_by is empty",
                hint="name the columns by which the table is partitioned, or use mode='overwrite'",
            )
        if self.sort_by and self.is_delta:
            raise TaskTerminalError(
                f"cannot write {self.path!r} with sort_by: each write to a Delta table is a new "
                "version of it, and so a change, whatever its rows are",
                hint="leave sort_by away; to have like rows in one file, use OPTIMIZE … ZORDER BY",
            )
        if self.sort_by and not self.repartition:
            raise TaskTerminalError(
                f"cannot write {self.path!r} with sort_by and repartition=False",
                hint="sort_by brings the rows of a file together first; leave one of them away",
            )

    @property
    def is_delta(self) -> bool:
        """Whether Delta writes the table, in its place, and keeps what it replaces as history."""
        return is_delta(self.file_format)

    @property
    def delta_mode(self) -> str:
        """What Delta calls the mode."""
        return _DELTA_MODES.get(self.mode, self.mode)

    @property
    def options(self) -> dict[str, str]:
        """What Spark is told about the format."""
        if self.is_delta:
            # Said each time: else a setting of the session would decide.
            dynamic = self.mode == "overwrite_partitions"
            return {"partitionOverwriteMode": "dynamic" if dynamic else "static"}
        return dict(_WRITE_OPTIONS.get(self.file_format, {}))

    def check_target(self, existing: Sequence[str], *, is_file: bool) -> None:
        """Raise unless the table may be written where these files, relative to it, lie already."""
        if self.mode == "error" and (existing or is_file):
            raise TaskTerminalError(
                f"{self.path!r} exists, and mode is 'error'",
                hint="use mode='overwrite' to replace it or mode='append' to add to it",
            )
        if self.is_delta:
            self._check_delta_target(existing, is_file=is_file)
            return
        if self.mode not in ("append", "overwrite_partitions"):
            return
        if is_file:
            raise TaskTerminalError(
                f"cannot append to {self.path!r}: it is a file",
                hint="append to a table, which is a directory, or use mode='overwrite'",
            )
        if is_delta_log(existing):
            raise TaskTerminalError(
                f"cannot append to {self.path!r}: it is a Delta table, and files that its log does "
                "not name are none of it",
                hint="use format='delta', or mode='overwrite' to have a plain table instead",
            )
        keys = partition_keys(existing)
        if keys is not None and keys != self.partition_by:
            raise TaskTerminalError(
                f"cannot append to {self.path!r}: it is partitioned by {list(keys)}, "
                f"and partition_by is {list(self.partition_by)}",
                hint="a table whose files lie in different ways cannot be read back",
            )

    def _check_delta_target(self, existing: Sequence[str], *, is_file: bool) -> None:
        if is_file or (existing and not is_delta_log(existing)):
            found = "a file" if is_file else "a directory of files that no Delta log names"
            raise TaskTerminalError(
                f"cannot write a Delta table to {self.path!r}: it is {found}",
                hint="delete it first with workspace.delete(path), or write to another path",
            )

    def find_replaced(self, existing: Iterable[str], written: Iterable[str]) -> list[str]:
        """Which of the files that lay there give way to those that were written."""
        match self.mode:
            case "overwrite":
                return list(existing)
            case "overwrite_partitions":
                rows = [
                    path for name in written if not is_hidden((path := PurePosixPath(name)).parts)
                ]
                touched = {path.parent for path in rows}
                return [name for name in existing if PurePosixPath(name).parent in touched]
            case _:
                return []


def read_only_error(path: str) -> TaskTerminalError:
    """For a write or delete of a task that publishes nothing."""
    return TaskTerminalError(
        f"a read-only task cannot write or delete {path!r}",
        hint="declare the task with WorkspaceSpec(read_only=False), or only read",
    )


def file_above_error(path: str, above: str) -> TaskTerminalError:
    """For a table that would lie below a file."""
    return TaskTerminalError(
        f"cannot write {path!r}: {above!r} is a file, not a directory",
        hint="delete the file first, or write to another path",
    )

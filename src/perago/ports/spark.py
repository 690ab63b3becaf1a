"""Spark, as a task body and the attempt runner see it. Only the adapter imports pyspark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

WriteMode = Literal["overwrite", "append", "error"]


@runtime_checkable
class SparkWorkspace(Protocol):
    """A workspace that Spark reads and writes; take it as the workspace parameter of a task.

    Paths are relative to the task's prefix. Reading shows the input ref, always, even after a
    write to the same path; the staged side starts as its copy and takes the writes. The same
    body runs on a local directory and, unchanged, on a lake.
    """

    @property
    def spark(self) -> SparkSession:
        """This attempt's own session."""
        ...

    @property
    def read(self) -> DataFrameReader:
        """A reader whose paths are rooted at the input: `ws.read.parquet("clean/flights")`."""
        ...

    @property
    def read_staged(self) -> DataFrameReader:
        """A reader rooted at what this attempt would publish now."""
        ...

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
        """Write a table as clean files with stable names.

        With `sort_by`, the same rows give the same bytes, so an unchanged rerun publishes nothing.
        """
        ...

    def uri_in(self, path: str = "") -> str:
        """The URI of a path at the input ref. Read it; never write to it."""
        ...

    def uri_out(self, path: str = "") -> str:
        """The URI of a path on the staged side."""
        ...

    def ls(self, path: str = "", *, staged: bool = False) -> list[str]:
        """The files below a path, relative to the prefix, sorted."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file or a whole directory from the staged side."""
        ...


class SparkLease(Protocol):
    """Spark for the length of one attempt."""

    @property
    def session(self) -> SparkSession:
        """A session of its own: no temporary view, setting or cached table of another attempt."""
        ...

    def workspace(self, input_directory: Path, output_directory: Path) -> SparkWorkspace:
        """A workspace over two local directories."""
        ...


class SparkSessions(Protocol):
    """One Spark context per executor process, started on first need and kept warm."""

    def lease(
        self, attempt: Attempt, execution_id: ExecutionId
    ) -> AbstractContextManager[SparkLease]:
        """Spark for one attempt; on exit jobs are cancelled and nothing is left behind.

        Raises `EnvironmentUnfitError` where Java or pyspark is missing or unfit, saying what to
        install.
        """
        ...

    def stop(self) -> None:
        """End the Spark context, if one was started."""
        ...

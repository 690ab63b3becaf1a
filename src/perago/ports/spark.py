"""Spark, as a task body and the attempt runner see it. Only the adapter imports pyspark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from perago.domain.attempt import Attempt
from perago.domain.guardrail import Guardrail
from perago.domain.ids import BranchName, CommitId, ExecutionId, RepositoryName
from perago.domain.spark_progress import SparkProgress
from perago.domain.workspace import Prefix
from perago.ports.direct import DirectStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

WriteMode = Literal["overwrite", "overwrite_partitions", "append", "error"]
"""`overwrite_partitions` replaces the partitions that the rows are of, and keeps the others."""


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
        repartition: bool = True,
    ) -> None:
        """Write a table, whole or not at all, with nothing but data files.

        In a local workspace files have stable names, and with `sort_by` the same rows give the
        same bytes, so an unchanged rerun publishes nothing. A partition is written by one task;
        with `repartition=False` by each task that has rows of it.

        A Delta table (`format="delta"`) is written by Delta: modes, columns and partitions are its
        own business, what was replaced stays as its history, and there is no `sort_by`.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectPlace:
    """Where a direct workspace reads, and writes: nowhere without a staging branch."""

    repository: RepositoryName
    ref: CommitId
    prefix: Prefix
    staging: BranchName | None


class SparkWatch(Protocol):
    """Counts what Spark does for an attempt from the moment it was made.

    It is used from one thread beside the body's. Whatever it raises costs the display, never the
    attempt; once the body has stopped Spark it asks nothing of it any more, and raises.
    """

    def look(self) -> SparkProgress:
        """How far Spark is; may lag a moment behind."""
        ...

    def total(self) -> SparkProgress:
        """What it has done, exactly, once the body is over; takes a moment at most."""
        ...


class SparkLease(Protocol):
    """Spark for the length of one attempt."""

    @property
    def session(self) -> SparkSession:
        """A session of its own: no temporary view, setting or cached table of another attempt."""
        ...

    @property
    def is_usable(self) -> bool:
        """Whether Spark still answers: not once a body stopped it, or it died."""
        ...

    def workspace(self, input_directory: Path, output_directory: Path) -> SparkWorkspace:
        """A workspace over two local directories."""
        ...

    def direct_workspace(self, place: DirectPlace, store: DirectStore) -> SparkWorkspace:
        """A workspace that Spark reads and writes in the store itself."""
        ...

    def watch(self) -> SparkWatch:
        """Begin to count what Spark does from now on. Called in the body's thread."""
        ...

    def settle(self) -> None:
        """Return when nothing of this attempt can write any more; its session is then of no use.

        What only reads is ended. Raises `UnfinishedWriteError` for a write that is under way, or
        that failed halfway: it is there in part, perhaps. Raises `EnvironmentUnfitError` when
        something cannot be ended, or the body ended Spark.
        """
        ...


class SparkSessions(Protocol):
    """One Spark context per executor process, started on first need and kept warm."""

    def lease(
        self, attempt: Attempt, execution_id: ExecutionId, *, direct: bool = False
    ) -> AbstractContextManager[SparkLease]:
        """Spark for one attempt; on exit jobs are cancelled and nothing is left behind.

        With `direct` it has what `direct_workspace` needs.

        Raises `EnvironmentUnfitError` where Java or pyspark is missing or unfit, saying what to
        install.
        """
        ...

    def stop(self) -> None:
        """End the Spark context, if one was started."""
        ...


class SparkGuardrails(Protocol):
    """Checks guardrails on Spark, where the files are in no directory."""

    def violations(self, guardrails: Sequence[Guardrail], workspace: SparkWorkspace) -> list[str]:
        """What is wrong at the workspace's input side, one sentence each. Changes nothing."""
        ...

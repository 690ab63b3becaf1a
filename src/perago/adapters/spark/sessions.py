"""One warm Spark per executor process, lent to one attempt at a time.

Invariant: a lease gets a clean context or a fresh one. Whatever a body did to Spark, stopping it
and killing the JVM included, costs the next attempt at most a start.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perago.adapters.localfs.java import JavaInstallation
from perago.adapters.spark.claim import CLAIM
from perago.adapters.spark.cluster import require_executor
from perago.adapters.spark.code import TaskCode, own_files_first
from perago.adapters.spark.delta import has_delta_classes, missing_delta_jars
from perago.adapters.spark.direct_workspace import DirectSparkWorkspace
from perago.adapters.spark.gateway import (
    SparkJvm,
    kept_interrupt_handler,
    require_pyspark,
    start_jvm,
)
from perago.adapters.spark.isolation import IsolatedSession, JobGroup
from perago.adapters.spark.java import find_java
from perago.adapters.spark.machine import measure_machine
from perago.adapters.spark.open_writes import OpenWrites
from perago.adapters.spark.progress import LocalSparkWatch
from perago.adapters.spark.s3a import S3Gateway
from perago.adapters.spark.scratch import JVM_PREFIX, remove_scratch, sweep_scratch
from perago.adapters.spark.settings import SparkSettings, build_spark_conf
from perago.adapters.spark.workspace import LocalSparkWorkspace
from perago.domain.attempt import Attempt
from perago.domain.errors import EnvironmentUnfitError, UnfinishedWriteError
from perago.domain.ids import ExecutionId
from perago.ports import DirectPlace, DirectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)

FindJars = Callable[[JavaInstallation], Sequence[Path]]
"""Finds jars, given the Java that may have to get them; none where Spark has them already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectAccess:
    """What Spark needs to reach the store by itself."""

    gateway: S3Gateway | None
    """None where the cluster has the address and the keys in its own configuration."""
    jars: FindJars
    """Finds the jars of S3A; none where the cluster has them."""


class LocalSparkLease:
    """Spark for one attempt; worth nothing once the lease is over."""

    def __init__(self, isolated: IsolatedSession, scratch: Path, gateway: S3Gateway | None) -> None:
        self._isolated = isolated
        self._session = isolated.session
        self._scratch = scratch
        self._gateway = gateway
        self._open_writes = OpenWrites()

    @property
    def session(self) -> SparkSession:
        return self._session

    @property
    def is_usable(self) -> bool:
        return self._isolated.is_usable

    def workspace(self, input_directory: Path, output_directory: Path) -> LocalSparkWorkspace:
        return LocalSparkWorkspace(
            spark=self._session,
            input_directory=input_directory,
            output_directory=output_directory,
            scratch=self._scratch,
            open_writes=self._open_writes,
        )

    def direct_workspace(self, place: DirectPlace, store: DirectStore) -> DirectSparkWorkspace:
        self._isolated.open_repository(self._gateway, place.repository)
        return DirectSparkWorkspace(
            spark=self._session, place=place, store=store, open_writes=self._open_writes
        )

    def watch(self) -> LocalSparkWatch:
        return LocalSparkWatch(self._session.sparkContext)

    def settle(self) -> None:
        self._open_writes.close()
        self._isolated.settle()


class LocalSparkSessions:
    """Spark in a JVM of this process's own, started on first need.

    `scratch` holds what Spark writes by itself, in a directory of this process; it should be on
    the disk of the attempt directories, so that finished tables are moved rather than copied.
    `executor_log` takes the JVM's output; without it the JVM writes where this process does.
    `executors` is the number of processes that share the machine. `direct` is what direct
    workspaces need; without it there are none. `delta_jars` finds the jars of Delta Lake; without
    it there are no Delta tables. `code` is sent to a cluster that does not have it.
    """

    def __init__(
        self,
        settings: SparkSettings,
        scratch: Path,
        executor_log: Path | None = None,
        *,
        executors: int = 1,
        direct: DirectAccess | None = None,
        delta_jars: FindJars | None = None,
        code: TaskCode | None = None,
    ) -> None:
        self._settings = settings
        self._scratch = scratch.resolve() / f"{JVM_PREFIX}{os.getpid()}"
        self._log = executor_log
        self._executors = executors
        self._direct = direct
        self._delta_jars = delta_jars
        self._code = code
        self._jvm: SparkJvm | None = None
        self._jvm_is_direct = False

    @contextmanager
    def lease(
        self, attempt: Attempt, execution_id: ExecutionId, *, direct: bool = False
    ) -> Iterator[LocalSparkLease]:
        scratch = self._scratch / execution_id
        # Whoever makes a context, a body included, has SIGINT go to it from then on.
        with CLAIM.held_by(attempt), kept_interrupt_handler():
            try:
                isolated = IsolatedSession(self._usable_jvm(direct=direct), _job_group(attempt))
                gateway = self._direct.gateway if direct and self._direct is not None else None
                try:
                    yield LocalSparkLease(isolated, scratch, gateway)
                except UnfinishedWriteError:
                    # The thread that writes may go on, and would be taken for the next body's.
                    _LOG.warning("the body left something running in Spark: ending it")
                    self.stop()
                    raise
                finally:
                    self._hand_back(isolated)
            finally:
                remove_scratch(self._scratch, execution_id)

    def stop(self) -> None:
        if self._jvm is not None:
            self._jvm.stop()
            self._jvm = None
        remove_scratch(self._scratch)

    def _usable_jvm(self, *, direct: bool) -> SparkJvm:
        if self._jvm is not None and not self._jvm.is_usable:
            _LOG.warning("Spark has died since it was last used; starting it afresh")
            self.stop()
        if self._jvm is not None and direct is not self._jvm_is_direct:
            # Committers are settings of a whole JVM, and those for S3 are wrong for local files.
            _LOG.info("starting Spark afresh for %s workspaces", "direct" if direct else "local")
            self.stop()
        if self._jvm is None:
            self._jvm = self._start_jvm(direct=direct)
            self._jvm_is_direct = direct
        else:
            # A cluster may have lost them all since; a job would wait for others for ever.
            require_executor(self._jvm.context)
        self._jvm.adopt()
        if self._code is not None:
            # Now, and not at the start: a body may have imported more of its project meanwhile.
            self._code.send_by_value()
        return self._jvm

    def _start_jvm(self, *, direct: bool) -> SparkJvm:
        require_pyspark()
        sweep_scratch(self._scratch.parent)
        java = find_java(os.environ)
        conf = build_spark_conf(
            self._settings,
            measure_machine(),
            scratch=self._scratch,
            executors=self._executors,
            s3a_jars=self._direct.jars(java) if direct and self._direct is not None else None,
            delta_jars=None if self._delta_jars is None else self._delta_jars(java),
        )
        jvm = start_jvm(conf, java, scratch=self._scratch, log=self._log)
        try:
            self._equip(jvm)
        except BaseException:
            jvm.stop()
            raise
        _LOG.info("Spark runs on Java %s, process %s", java.version, jvm.pid)
        return jvm

    def _equip(self, jvm: SparkJvm) -> None:
        """Look whether it has what its settings promise, and give it the tasks' code."""
        if self._delta_jars is not None and not has_delta_classes(jvm.context):
            raise missing_delta_jars()
        if self._code is not None:
            archives = self._code.archives(self._scratch / "code")
            with own_files_first():
                for archive in archives:
                    jvm.context.addPyFile(str(archive))

    def _hand_back(self, isolated: IsolatedSession) -> None:
        """Keep the JVM warm if it is clean; how the body ended is not changed by this."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        if self._jvm is None:
            return
        if not self._jvm.is_usable:
            _LOG.warning("the body stopped Spark, or Spark died; the next attempt starts it afresh")
            self.stop()
            return
        try:
            isolated.close()
        except (Py4JError, PySparkException, OSError, EnvironmentUnfitError):
            _LOG.warning("Spark could not be cleaned after the attempt: ending it", exc_info=True)
            self.stop()


def _job_group(attempt: Attempt) -> JobGroup:
    return JobGroup(
        id=f"{attempt.task_id}-{attempt.retry_count}",
        description=(
            f"{attempt.task_name} as {attempt.reference_name}, workflow {attempt.workflow_id}"
        ),
    )

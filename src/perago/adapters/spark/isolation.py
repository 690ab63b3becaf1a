"""What keeps two attempts on one warm JVM apart.

Invariant: after `close`, nothing that an attempt did to Spark can be seen by the next one. If that
cannot be reached, `close` raises, and its caller throws the JVM away.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perago.adapters.spark.delta import forget_delta_tables
from perago.adapters.spark.gateway import SparkJvm
from perago.adapters.spark.s3a import S3Gateway, close_repository, open_repository
from perago.domain.errors import EnvironmentUnfitError
from perago.domain.ids import RepositoryName

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_SETTLE_SECONDS = 30.0
_CLOSE_SECONDS = 5.0
"""Less: all it costs is a JVM."""
_LOOK_SECONDS = 0.02
_QUIET_LOOKS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGroup:
    """How Spark's log and pages name the jobs of one attempt."""

    id: str
    description: str


@dataclass(frozen=True, slots=True)
class _ContextState:
    """What is shared by all sessions of a context and can be changed through any of them."""

    hadoop_conf: bytes
    local_properties: JavaObject


class IsolatedSession:
    """A session with its own conf, views and functions, on a context that it gives back."""

    def __init__(self, jvm: SparkJvm, group: JobGroup) -> None:
        self._jvm = jvm
        self._before = _capture(jvm.context)
        self.session = jvm.root.newSession()
        _make_current(self.session)
        jvm.context.setJobGroup(group.id, group.description, interruptOnCancel=True)
        self._repositories: set[RepositoryName] = set()

    @property
    def is_usable(self) -> bool:
        """Whether Spark still answers."""
        return self._jvm.is_usable

    def open_repository(self, gateway: S3Gateway | None, repository: RepositoryName) -> None:
        """Let this session reach a repository of the store, until it is closed."""
        if repository not in self._repositories:
            self._repositories.add(repository)
            if gateway is not None:
                open_repository(self._jvm.context, gateway, repository)

    def settle(self) -> None:
        """End every job, and wait until no task runs: what was asked to end may go on writing."""
        if not self._jvm.is_usable:
            raise EnvironmentUnfitError(
                "the body stopped Spark, or Spark died: what it wrote cannot be relied on",
                hint="a body leaves the session to the runtime: it never calls spark.stop()",
            )
        _end_jobs(self._jvm.context, self.session, _SETTLE_SECONDS)

    def close(self) -> None:
        """End what still runs and put the context back as it was. Call it in the same thread."""
        context = self._jvm.context
        _end_jobs(context, self.session, _CLOSE_SECONDS)
        forget_delta_tables(self.session)
        _free_memory(context, self.session)
        _drop_shared_tables(self._jvm.root)
        _make_current(self._jvm.root)
        for repository in self._repositories:
            close_repository(context, repository)
        _restore(context, self._before)


def _capture(context: SparkContext) -> _ContextState:
    jvm = context._jvm  # noqa: SLF001
    assert jvm is not None
    buffer = jvm.java.io.ByteArrayOutputStream()
    _hadoop_conf(context).write(jvm.java.io.DataOutputStream(buffer))
    return _ContextState(
        hadoop_conf=buffer.toByteArray(),
        local_properties=context._jsc.sc().getLocalProperties().clone(),  # noqa: SLF001
    )


def _restore(context: SparkContext, state: _ContextState) -> None:
    jvm = context._jvm  # noqa: SLF001
    assert jvm is not None
    buffer = jvm.java.io.ByteArrayInputStream(state.hadoop_conf)
    _hadoop_conf(context).readFields(jvm.java.io.DataInputStream(buffer))
    context._jsc.sc().setLocalProperties(state.local_properties)  # noqa: SLF001


def _hadoop_conf(context: SparkContext) -> JavaObject:
    return context._jsc.hadoopConfiguration()  # noqa: SLF001


def _make_current(session: SparkSession) -> None:
    """Make it the session that `SparkSession.builder.getOrCreate()` gives, on both sides."""
    kind = type(session)
    kind._instantiatedSession = session  # noqa: SLF001
    kind._activeSession = session  # noqa: SLF001
    java_class = kind._get_j_spark_session_class(session._jvm)  # noqa: SLF001
    java_class.setDefaultSession(session._jsparkSession)  # noqa: SLF001
    java_class.setActiveSession(session._jsparkSession)  # noqa: SLF001


def _cancel_jobs(context: SparkContext, session: SparkSession) -> None:
    for query in session.streams.active:
        query.stop()
    # Not by job group alone: a thread that the body started has none, and one process runs one
    # attempt at a time.
    context.cancelAllJobs()


def _end_jobs(context: SparkContext, session: SparkSession, seconds: float) -> None:
    """Cancel until nothing runs: a thread of the body's may begin another job meanwhile."""
    deadline = time.monotonic() + seconds
    quiet_looks = 0
    while quiet_looks < _QUIET_LOOKS:
        _cancel_jobs(context, session)
        work = _unfinished_work(context)
        quiet_looks = 0 if work else quiet_looks + 1
        if work and time.monotonic() > deadline:
            raise EnvironmentUnfitError(
                f"{work} Spark tasks or jobs still run {seconds:.0f} s after they were told to "
                "end: what they write cannot be relied on",
                hint="look for native code or sleeps in them that ignore interrupts",
            )
        time.sleep(_LOOK_SECONDS)


def _unfinished_work(context: SparkContext) -> int:
    """How many jobs are active and tasks not over, as the schedulers count them.

    Not as the status tracker does: what began a moment ago is not in there yet.
    """
    spark = context._jsc.sc()  # noqa: SLF001
    work = int(spark.dagScheduler().activeJobs().size())
    running = spark.taskScheduler().runningTasksByExecutors().valuesIterator()
    while running.hasNext():
        work += int(running.next())
    return work


def _free_memory(context: SparkContext, session: SparkSession) -> None:
    session.catalog.clearCache()
    for dataset in context._jsc.getPersistentRDDs().values():  # noqa: SLF001
        dataset.unpersist()


def _drop_shared_tables(root: SparkSession) -> None:
    """Drop what sessions share: global temporary views, tables and databases of the catalogue."""
    shared = root._jsparkSession.sharedState()  # noqa: SLF001
    shared.globalTempViewManager().clear()
    catalog = shared.externalCatalog()
    for database in _strings(catalog.listDatabases()):
        if database != "default":
            catalog.dropDatabase(database, True, True)
    for table in _strings(catalog.listTables("default")):
        catalog.dropTable("default", table, True, True)
    for function in _strings(catalog.listFunctions("default", "*")):
        catalog.dropFunction("default", function)


def _strings(sequence: JavaObject) -> list[str]:
    return [str(sequence.apply(index)) for index in range(sequence.size())]

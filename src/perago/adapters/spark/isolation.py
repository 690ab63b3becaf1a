"""What keeps two attempts on one warm JVM apart.

Invariant: after `close`, nothing that an attempt did to Spark can be seen by the next one. If that
cannot be reached, `close` raises, and its caller throws the JVM away.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perago.adapters.spark.delta import forget_delta_tables
from perago.adapters.spark.gateway import SparkJvm
from perago.adapters.spark.open_writes import unanswered, unfinished
from perago.adapters.spark.s3a import S3Gateway, connection_to, open_repository
from perago.domain.errors import EnvironmentUnfitError
from perago.domain.ids import RepositoryName

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject, JVMView
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

    hadoop_conf: JavaObject
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
        """See that no write is under way, end what else runs, and let nothing new begin.

        A write that is cut off while its committer is at work, which is none of Spark's jobs, has
        made a part of its files visible; so it is not ended but refused.
        """
        from py4j.protocol import Py4JError

        if not self._jvm.is_usable:
            raise EnvironmentUnfitError(
                "the body stopped Spark, or Spark died: what it wrote cannot be relied on",
                hint="a body leaves the session to the runtime: it never calls spark.stop()",
            )
        try:
            self._let_nothing_write()
        except (Py4JError, OSError) as error:
            # It dies at this very moment, or cannot close what it had opened.
            raise unanswered(error) from error

    def _let_nothing_write(self) -> None:
        context = self._jvm.context
        if _stop_streams(self._jvm.root):
            raise unfinished(["a stream"])
        begun = _count_executions(context)
        _refuse_writes(context)
        _end_jobs(context, _SETTLE_SECONDS)
        self._leave_repositories()
        _refuse_writes(context)
        if _count_executions(context) != begun:
            raise unfinished(["a thread of its own began another query"])

    def close(self) -> None:
        """End what still runs and put the context back as it was. Call it in the same thread."""
        context = self._jvm.context
        _stop_streams(self._jvm.root)
        _end_jobs(context, _CLOSE_SECONDS)
        forget_delta_tables(self.session)
        _free_memory(context, self.session)
        _drop_shared_tables(self._jvm.root)
        _make_current(self._jvm.root)
        self._leave_repositories()
        context._jsc.sc().setLocalProperties(self._before.local_properties)  # noqa: SLF001

    def _leave_repositories(self) -> None:
        """Put Hadoop's settings back as they were, and close what was opened with those here."""
        context = self._jvm.context
        connections = [connection_to(context, name) for name in self._repositories]
        _restore_hadoop_conf(context, self._before)
        # Last: what a thread opens from now on has no key.
        for connection in connections:
            connection.close()
        self._repositories.clear()


def _capture(context: SparkContext) -> _ContextState:
    jvm = context._jvm  # noqa: SLF001
    assert jvm is not None
    return _ContextState(
        hadoop_conf=jvm.org.apache.hadoop.conf.Configuration(_hadoop_conf(context)),
        local_properties=context._jsc.sc().getLocalProperties().clone(),  # noqa: SLF001
    )


def _restore_hadoop_conf(context: SparkContext, state: _ContextState) -> None:
    jvm = context._jvm  # noqa: SLF001
    assert jvm is not None
    # In place, since everybody holds it, and within the JVM: it has some thousand settings.
    copy = jvm.org.apache.hadoop.util.ReflectionUtils.copy
    copy(state.hadoop_conf, state.hadoop_conf, _hadoop_conf(context))


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


def _stop_streams(root: SparkSession) -> int:
    """Stop them all, and say how many: a body may have started one on a session of its own making.

    What a stream was at when it was stopped may be there in part.
    """
    from py4j.protocol import Py4JJavaError

    active = root._jsparkSession.sharedState().activeStreamingQueries()  # noqa: SLF001
    streams = _values(root._jvm, active)  # noqa: SLF001
    for stream in streams:
        try:
            stream.stop()
        except Py4JJavaError as error:
            raise EnvironmentUnfitError(
                "a stream of the body's did not stop: what it writes cannot be relied on",
                hint="have the body stop its streams, and wait for them, before it returns",
            ) from error
    return len(streams)


def _refuse_writes(context: SparkContext) -> None:
    """Raise while Spark carries out a command, from its first job to the end of its committer."""
    jvm = context._jvm  # noqa: SLF001
    assert jvm is not None
    command = jvm.java.lang.Class.forName("org.apache.spark.sql.catalyst.plans.logical.Command")
    running = _sql_executions(jvm, "executionIdToQueryExecution")
    plans = [execution.logical() for execution in _values(jvm, running)]
    # A statement with several INSERTs is no command itself, but the union of some.
    parts = [part for plan in plans for part in (plan, *_elements(plan.children()))]
    writes = [str(part.nodeName()) for part in parts if command.isInstance(part)]
    if writes:
        raise unfinished(writes)


def _values(jvm: JVMView, table: JavaObject) -> Sequence[JavaObject]:
    """The values of a map as they are now; py4j itself looks each up, by keys of another type."""
    from py4j.java_gateway import get_method

    values: Sequence[JavaObject] = jvm.java.util.Collections.list(get_method(table, "elements")())
    return values


def _count_executions(context: SparkContext) -> int:
    """How many queries and commands Spark has begun since it was started."""
    jvm = context._jvm  # noqa: SLF001
    assert jvm is not None
    return int(_sql_executions(jvm, "_nextExecutionId"))


def _sql_executions(jvm: JVMView, field: str) -> Any:
    """What Spark notes of queries and commands, for itself; its status store lags behind."""
    kind = jvm.java.lang.Class.forName("org.apache.spark.sql.execution.SQLExecution$")
    note = kind.getDeclaredField(field)
    note.setAccessible(True)
    return note.get(None)


def _end_jobs(context: SparkContext, seconds: float) -> None:
    """Cancel until nothing runs: a thread of the body's may begin another job meanwhile."""
    deadline = time.monotonic() + seconds
    quiet_looks = 0
    while True:
        # Not by job group alone: a thread that the body started has none, and one process runs
        # one attempt at a time.
        context.cancelAllJobs()
        work = _unfinished_work(context)
        quiet_looks = 0 if work else quiet_looks + 1
        if quiet_looks == _QUIET_LOOKS:
            return
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
    return [str(element) for element in _elements(sequence)]


def _elements(sequence: JavaObject) -> list[JavaObject]:
    return [sequence.apply(index) for index in range(sequence.size())]

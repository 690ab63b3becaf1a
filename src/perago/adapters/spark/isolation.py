"""What keeps two attempts on one warm JVM apart.

Invariant: after `close`, nothing that an attempt did to Spark can be seen by the next one. If that
cannot be reached, `close` raises, and its caller throws the JVM away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from perago.adapters.spark.gateway import SparkJvm

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


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

    def close(self) -> None:
        """End what still runs and put the context back as it was. Call it in the same thread."""
        _end_running_work(self._jvm.context, self.session)
        _drop_shared_tables(self._jvm.root)
        _make_current(self._jvm.root)
        _restore(self._jvm.context, self._before)


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


def _end_running_work(context: SparkContext, session: SparkSession) -> None:
    for query in session.streams.active:
        query.stop()
    # Not by job group alone: a thread that the body started has none, and one process runs one
    # attempt at a time.
    context.cancelAllJobs()
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

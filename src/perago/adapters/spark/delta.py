"""Delta Lake tables: what Spark has to know for them, and what Perago asks of it.

A Delta table is its log: data files count only once a file of the log names them. So a table is
written in place, by Delta's own commit, and never moved, renamed or sorted into stable files as
plain tables are. See ADR 0012.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from perago.adapters.guardrails.views import DELTA_LOG
from perago.domain.errors import EnvironmentUnfitError, TaskTerminalError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

_EXTENSIONS = "spark.sql.extensions"
_EXTENSION_CLASS = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "spark.sql.catalog.spark_catalog"
_SNAPSHOT_TASKS = "spark.databricks.delta.snapshotPartitions"
_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_CATALOG_CLASS = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def add_delta_conf(conf: Mapping[str, str], *, small_tasks: int | None = None) -> dict[str, str]:
    """Spark's settings with Delta's; extensions of the user's own stay, and so does a catalogue.

    Nothing about the log store: the default for S3 (`S3SingleDriverLogStore`) is right where one
    driver writes a table, and a staging branch is one attempt's own. `small_tasks` is into how many
    tasks Delta divides its own look at a log, and VACUUM its look at the files. By default these
    are fifty and up to ten thousand: too many for one machine.
    """
    extensions = [name.strip() for name in conf.get(_EXTENSIONS, "").split(",") if name.strip()]
    names = () if small_tasks is None else (_SNAPSHOT_TASKS, _LISTING_TASKS)
    fewer = {name: str(small_tasks) for name in names}
    return {
        **fewer,
        _CATALOG: _CATALOG_CLASS,
        **conf,
        _EXTENSIONS: ",".join(dict.fromkeys([*extensions, _EXTENSION_CLASS])),
    }


def has_delta_classes(context: SparkContext) -> bool:
    """Whether Delta's jars are there: of an extension without its class Spark only warns."""
    from py4j.protocol import Py4JJavaError

    jvm = context._jvm  # noqa: SLF001
    assert jvm is not None
    try:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader.loadClass(_EXTENSION_CLASS)
    except Py4JJavaError:
        return False
    return True


def missing_delta_jars() -> EnvironmentUnfitError:
    """For a Spark that shall have Delta tables, and whose jars lack them."""
    return EnvironmentUnfitError(
        "spark_tables is 'delta', and the jars of Spark lack Delta Lake",
        hint="name them in PERAGO_SPARK_JARS too; unset, `perago jars --json` lists them",
    )


def is_delta(source: str) -> bool:
    """Whether a format is Delta's, as Spark spells them."""
    return source.lower() == "delta"


def check_table_format(source: str, spark: SparkSession | ConnectSession) -> None:
    """Raise for a table format that this Spark has not, or that does not work on a workspace."""
    if source.lower() == "iceberg":
        raise iceberg_error()
    if is_delta(source) and not has_delta(spark):
        raise TaskTerminalError(
            "this Spark has no Delta Lake",
            hint="set PERAGO_SPARK_TABLES=delta (spark_tables in perago.toml) for the worker; "
            "on a Spark Connect server, start it with Delta's jars and settings",
        )


def iceberg_error() -> TaskTerminalError:
    """Why there are no Iceberg tables."""
    return TaskTerminalError(
        "Iceberg tables do not work in a workspace: their metadata names each file by its whole "
        "address, and so leads to the staging branch or the local directory, which is gone once "
        "the attempt is over",
        hint="use format='delta', whose log names files relative to the table",
    )


def has_delta(spark: SparkSession | ConnectSession) -> bool:
    """Whether a session was set up for Delta tables."""
    return _EXTENSION_CLASS in (spark.conf.get(_EXTENSIONS, "") or "")


def is_delta_log(names: Iterable[str]) -> bool:
    """Whether files, relative to a directory, make it a Delta table."""
    return any(name.startswith(f"{DELTA_LOG}/") for name in names)


def forget_delta_tables(spark: SparkSession) -> None:
    """Drop what Delta keeps of tables for all sessions of a JVM."""
    if has_delta(spark):
        jvm = spark._jvm  # noqa: SLF001
        assert jvm is not None
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

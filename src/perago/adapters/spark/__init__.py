"""Spark in a JVM beside the executor process; the only package that imports pyspark.

Importing it needs neither pyspark nor Java: what is missing is said when Spark is first needed.
"""

from perago.adapters.spark.sessions import LocalSparkLease, LocalSparkSessions
from perago.adapters.spark.settings import Machine, SparkSettings, build_spark_conf
from perago.adapters.spark.workspace import LocalSparkWorkspace

__all__ = [
    "LocalSparkLease",
    "LocalSparkSessions",
    "LocalSparkWorkspace",
    "Machine",
    "SparkSettings",
    "build_spark_conf",
]

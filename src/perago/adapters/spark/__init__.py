"""Spark in a JVM beside the executor process; the only package that imports pyspark.

Importing it needs neither pyspark nor Java: what is missing is said when Spark is first needed.
"""

from perago.adapters.spark.code import TaskCode
from perago.adapters.spark.connect import ConnectSettings, ConnectSparkSessions
from perago.adapters.spark.guardrails import SparkGuardrailEvaluator
from perago.adapters.spark.jars import DELTA, S3A, JarCache, JarSet
from perago.adapters.spark.s3a import S3Gateway
from perago.adapters.spark.sessions import (
    DirectAccess,
    FindJars,
    LocalSparkLease,
    LocalSparkSessions,
)
from perago.adapters.spark.settings import Machine, SparkSettings, build_spark_conf, is_local
from perago.adapters.spark.workspace import LocalSparkWorkspace

__all__ = [
    "DELTA",
    "S3A",
    "ConnectSettings",
    "ConnectSparkSessions",
    "DirectAccess",
    "FindJars",
    "JarCache",
    "JarSet",
    "LocalSparkLease",
    "LocalSparkSessions",
    "LocalSparkWorkspace",
    "Machine",
    "S3Gateway",
    "SparkGuardrailEvaluator",
    "SparkSettings",
    "TaskCode",
    "build_spark_conf",
    "is_local",
]

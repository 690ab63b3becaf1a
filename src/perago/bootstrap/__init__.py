"""The only place where ports meet adapters."""

from perago.bootstrap.application import Application, open_application
from perago.bootstrap.machine import describe_spark, disk_of, scan_tree, spark_settings
from perago.bootstrap.stores import StoreInForce, describe_store, lakefs_connection, open_store
from perago.bootstrap.worker import ExecutorFactory, Worker, open_worker, tasks_of

__all__ = [
    "Application",
    "ExecutorFactory",
    "StoreInForce",
    "Worker",
    "describe_spark",
    "describe_store",
    "disk_of",
    "lakefs_connection",
    "open_application",
    "open_store",
    "open_worker",
    "scan_tree",
    "spark_settings",
    "tasks_of",
]

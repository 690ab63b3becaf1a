"""The only place where ports meet adapters."""

from perago.bootstrap.application import Application, open_application
from perago.bootstrap.machine import describe_spark, disk_of, scan_tree
from perago.bootstrap.observation import (
    Observation,
    ObservationOptions,
    observation_options,
    open_observation,
)
from perago.bootstrap.orchestrators import (
    conductor_connection,
    describe_orchestrator,
    open_orchestrator,
)
from perago.bootstrap.stores import StoreInForce, describe_store, lakefs_connection, open_store
from perago.bootstrap.worker import Batch, ExecutorFactory, Worker, open_worker, tasks_of

__all__ = [
    "Application",
    "Batch",
    "ExecutorFactory",
    "Observation",
    "ObservationOptions",
    "StoreInForce",
    "Worker",
    "conductor_connection",
    "describe_orchestrator",
    "describe_spark",
    "describe_store",
    "disk_of",
    "lakefs_connection",
    "observation_options",
    "open_application",
    "open_observation",
    "open_orchestrator",
    "open_store",
    "open_worker",
    "scan_tree",
    "tasks_of",
]

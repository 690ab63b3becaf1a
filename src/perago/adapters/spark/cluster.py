"""A cluster that refuses an application, or takes it and gives it nothing to run on.

In the latter case Spark itself waits for ever, and says so in its log alone. An attempt that fails
can be retried elsewhere or later, and says why.
"""

from __future__ import annotations

import logging
import socket
import time
from typing import TYPE_CHECKING

from perago.domain.errors import EnvironmentUnfitError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark import SparkContext

_PATIENCE_NAME = "spark.scheduler.maxRegisteredResourcesWaitingTime"
"""Spark's own setting for how long it waits before it begins; whoever sets it is taken at it."""
_PATIENCE = "300s"
_WARN_SECONDS = 15.0
_LOOK_SECONDS = 0.1
_DRIVER_ALONE = 1
_STOPPED = "stopped SparkContext"
_STANDALONE = "spark://"
_MASTER_SECONDS = 15.0
"""A master that restarts may be away for a moment."""
_BETWEEN_CONNECTIONS = 0.5
_LOG = logging.getLogger(__name__)


def explain_refusal(master: str, reason: str) -> str:
    """Say what a start that failed means where Spark's own words do not.

    A cluster that does not answer, or turns an application down, has the context stopped while it
    is being made: all that its maker hears is that somebody stopped it.
    """
    if _STOPPED not in reason:
        return reason
    return f"the cluster {master} did not answer, or turned it down ({reason})"


def require_master(master: str, seconds: float = _MASTER_SECONDS) -> None:
    """Return once a standalone master takes connections; raise when none does in time.

    Spark itself finds that out in a minute, and only after a JVM was started for it.
    """
    if not master.startswith(_STANDALONE):
        return
    deadline = time.monotonic() + seconds
    while (reason := _explain_unreachable(master, deadline)) is not None:
        if time.monotonic() + _BETWEEN_CONNECTIONS > deadline:
            raise EnvironmentUnfitError(
                f"the cluster {master} cannot be reached: {reason}",
                hint="see that its master runs and that this machine may connect to it, or correct "
                "PERAGO_SPARK_MASTER",
            )
        time.sleep(_BETWEEN_CONNECTIONS)


def _explain_unreachable(master: str, deadline: float) -> str | None:
    """Say why no master takes connections.

    None if one does, or if the address is not one that Perago can read.
    """
    reason = None
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdecimal():
            return None
        try:
            left = max(_BETWEEN_CONNECTIONS, deadline - time.monotonic())
            with socket.create_connection((host.strip("[]"), int(port)), timeout=left):
                return None
        except (OSError, OverflowError, UnicodeError) as error:
            reason = f"{address}: {error}"
    return reason


def require_executor(context: SparkContext) -> None:
    """Return once the cluster gave an executor; raise when it gives none in time.

    Not where executors come and go with the jobs: there may be none before the first.
    """
    spark = context._jsc.sc()  # noqa: SLF001
    conf, master = spark.conf(), str(spark.master())
    if spark.isLocal() or conf.getBoolean("spark.dynamicAllocation.enabled", False):
        return
    patience = float(conf.getTimeAsSeconds(_PATIENCE_NAME, _PATIENCE))
    began, is_warned = time.monotonic(), False
    while not _has_executor(spark):
        waited = time.monotonic() - began
        if spark.isStopped() or waited > patience:
            given = "ended Spark's application" if spark.isStopped() else "gave Spark no executor"
            raise EnvironmentUnfitError(
                f"the cluster {master} {given} within {patience:.0f} s",
                hint="see that it has workers with free cores, and with as much memory as "
                f"spark.executor.memory asks for; {_PATIENCE_NAME} in spark_conf has Perago wait "
                "longer",
            )
        if waited > _WARN_SECONDS and not is_warned:
            is_warned = True
            _LOG.warning(
                "%s has given Spark no executor yet; waiting for up to %.0f s", master, patience
            )
        time.sleep(_LOOK_SECONDS)


def _has_executor(spark: JavaObject) -> bool:
    # A stopped one refuses to be asked.
    return not spark.isStopped() and int(spark.getExecutorMemoryStatus().size()) > _DRIVER_ALONE

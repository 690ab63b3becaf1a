"""A real Spark Connect server on loopback, from the pyspark wheel."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from perago.adapters.servers.processes import choose_free_port
from tests.spark_cluster import bare_environment, wait_for

EVENT_LOG = "events"
DELTA_CONF = {
    # A checkpoint of the log at every third version, so that few writes show one.
    "spark.databricks.delta.properties.defaults.checkpointInterval": "3",
    # Perago says so by itself, but where Spark runs elsewhere.
    "spark.databricks.delta.snapshotPartitions": "2",
}
_HOST = "127.0.0.1"
_STARTED = re.compile(r"Spark Connect server started at: (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectServer:
    """A running server."""

    remote: str
    log: Path
    """Beside it is the directory of the log of events, if there is one."""
    process: subprocess.Popen[bytes]


def connect_server_of_the_tests(
    place: Path, jars: Sequence[Path]
) -> AbstractContextManager[ConnectServer]:
    """Start one with Delta tables that writes a log of events."""
    (place / EVENT_LOG).mkdir()
    conf = {
        # As the page on Spark elsewhere has them.
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        **DELTA_CONF,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": f"file:{place / EVENT_LOG}",
    }
    return spark_connect_server(place, jars=jars, conf=conf)


@contextmanager
def spark_connect_server(
    directory: Path, *, jars: Sequence[Path] = (), conf: Mapping[str, str] | None = None
) -> Iterator[ConnectServer]:
    """Start a server whose machines have no code of any task; it is killed in the end."""
    home = Path(pyspark.__file__).parent
    log, port = directory / "connect.log", choose_free_port()
    (directory / "tmp").mkdir(parents=True)
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.driver.host": _HOST,
        "spark.driver.bindAddress": _HOST,
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={directory / 'tmp'}",
        "spark.connect.grpc.binding.address": _HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.port": "0",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.shuffle.partitions": "4",
        "spark.local.dir": str(directory / "local"),
        **(conf or {}),
    }
    command = [str(home / "bin" / "spark-submit")]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*command, "spark-internal"],
            cwd=directory,
            # Append the jars to the class path; `--driver-class-path` would put them first. Java
            # accepts the archive of Spark's classes only if the path begins as the archive's did.
            env=bare_environment(directory)
            | {"SPARK_DIST_CLASSPATH": os.pathsep.join(map(str, jars))},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(log, _STARTED)
        yield ConnectServer(remote=f"sc://{_HOST}:{port}", log=log, process=process)
    finally:
        process.kill()
        process.wait()

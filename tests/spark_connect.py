"""A real Spark Connect server on loopback, from the pyspark wheel."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from perago.adapters.servers.processes import choose_free_port
from tests.spark_cluster import bare_environment, wait_for

_HOST = "127.0.0.1"
_STARTED = re.compile(r"Spark Connect server started at: (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectServer:
    """A running server."""

    remote: str
    log: Path
    process: subprocess.Popen[bytes]


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
            # At the end of the class path, where `--driver-class-path` puts them at its beginning:
            # the archive of Spark's classes fits what begins as it did when that was made.
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

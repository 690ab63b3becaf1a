"""A real standalone Spark cluster on loopback: a master and workers from the pyspark wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from perago.adapters.spark.java import find_java

_PATIENCE_SECONDS = 120.0
_WORKER_MEMORY = "1g"
_MASTER_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_HOST = "127.0.0.1"
_NO_PERAGO = """\
import sys


class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "perago":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, NotInstalled())
"""


@dataclass(slots=True, kw_only=True)
class SparkCluster:
    """A running cluster. A test may kill workers; `restore` replaces them for the next test."""

    master: str
    directory: Path
    stack: ExitStack
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def restore(self) -> None:
        """Restart the workers that ended."""
        fresh = []
        for number, worker in enumerate(self.workers):
            if worker.poll() is not None:
                self.workers[number] = self._launch_worker(number)
                fresh.append(number)
        self._wait_for(fresh)

    def add_workers(self, count: int) -> None:
        """Start so many workers, and wait until the master knows them."""
        first = len(self.workers)
        numbers = range(first, first + count)
        self.workers += [self._launch_worker(number) for number in numbers]
        self._wait_for(numbers)

    def _launch_worker(self, number: int) -> subprocess.Popen[bytes]:
        resources = ["--cores", "1", "--memory", _WORKER_MEMORY]
        place = ["--work-dir", str(self.directory / f"work-{number}")]
        command = ["worker.Worker", *_address(), *resources, *place, self.master]
        return _launch(self.stack, self._log(number), command)

    def _wait_for(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            wait_for(self._log(number), re.compile("(registered) with master"))

    def _log(self, number: int) -> Path:
        return self.directory / f"worker-{number}.log"

    def logs(self) -> list[Path]:
        """All that its processes wrote down, those of applications included."""
        return [path for path in self.directory.rglob("*") if path.is_file()]


@contextmanager
def spark_cluster(directory: Path, *, workers: int = 2) -> Iterator[SparkCluster]:
    """Start a cluster; whatever is left of it at the end of the block is killed."""
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        _launch(stack, directory / "master.log", ["master.Master", *_address()])
        url = wait_for(directory / "master.log", _MASTER_URL)
        cluster = SparkCluster(master=url, directory=directory, stack=stack)
        cluster.add_workers(workers)
        yield cluster


def _address() -> list[str]:
    return ["--host", _HOST, "--port", "0", "--webui-port", "0"]


def _launch(stack: ExitStack, log: Path, command: list[str]) -> subprocess.Popen[bytes]:
    home, java = Path(pyspark.__file__).parent, find_java(os.environ)
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [
                str(java.program),
                *("-Xmx256m", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={log.parent}"),
                *("-cp", _class_path(home)),
                f"org.apache.spark.deploy.{command[0]}",
                *command[1:],
            ],
            cwd=log.parent,
            env=bare_environment(log.parent)
            | {
                # Else a worker looks for a build of Spark to find it out, which a wheel is not.
                "SPARK_SCALA_VERSION": "2.13",
            },
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def _class_path(home: Path) -> str:
    """As Spark's own scripts make it, so that the archive of its classes fits."""
    jars = home / "jars"
    return os.pathsep.join([f"{home / 'conf'}/", *map(str, jars.glob("slf4j-api-*")), f"{jars}/*"])


def bare_environment(directory: Path) -> dict[str, str]:
    """Of a machine with Spark and Python, and no code of Perago or of any task."""
    place = directory / "bare"
    place.mkdir(exist_ok=True)
    (place / "sitecustomize.py").write_text(_NO_PERAGO, encoding="utf-8")
    return os.environ | {
        "JAVA_HOME": str(find_java(os.environ).home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": _HOST,
        "SPARK_LOCAL_DIRS": str(directory / "local"),
        "PYTHONPATH": str(place),
        "PYSPARK_PYTHON": sys.executable,
    }


def wait_for(log: Path, wanted: re.Pattern[str]) -> str:
    """Wait until a log says it; what the pattern holds."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (found := wanted.search(log.read_text(errors="replace"))) is None:
        assert time.monotonic() < deadline, f"{log.name} never said {wanted.pattern!r}: " + (
            log.read_text(errors="replace")
        )
        time.sleep(0.1)
    return found[1]

"""Direct and local workers on the same data, taking turns."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from bench.place import remove_large
from bench.process_tree import PROJECT, bare_environment
from bench.spark.relay import CountingRelay
from bench.spark.run import Job, Run, Step
from bench.spark.usage import UsageWatch
from bench.spark.worker import ENDPOINT, SPARK_ENDPOINT, STRAIGHT_ENDPOINT
from bench.transfer.perago_store import import_with_perago
from bench.transfer.server import Server
from examples.flights.scale import copy_table
from examples.flights.source import TABLES
from perago.domain.access import Access

MAIN = "main"
WARM_UPS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeded:
    """A repository that holds so many times the raw data, and how many flights that is."""

    scale: int
    rows: int
    repository: str
    ref: str


class SparkContest:
    """Runs workers on one server and checks what each left there."""

    def __init__(self, server: Server, place: Path, steps: Sequence[str], memory_mb: int) -> None:
        self._server = server
        self._place = place
        self._steps = list(steps)
        self._memory_mb = memory_mb
        self._numbers = count(1)

    def seed(self, scale: int) -> Seeded:
        """Make the raw data and import it into a repository of its own."""
        source, repository = self._place / f"source-{scale}", f"flights-{scale}"
        (source / "raw").mkdir(parents=True)
        for name in TABLES:
            with (source / "raw" / f"{name}.csv").open("wb") as target:
                copy_table(name, target, scale)
        self._server.create_repository(repository)
        import_with_perago(self._server, source, repository)
        rows = count_rows(source / "raw" / "flights.csv")
        shutil.rmtree(source)
        head = self._server.head(repository, MAIN)
        return Seeded(scale=scale, rows=rows, repository=repository, ref=head)

    def remove(self, seeded: Seeded) -> None:
        """Free the disk."""
        self._server.delete_repository(seeded.repository)

    def run(self, seeded: Seeded, rounds: int) -> Iterator[Run]:
        """Each kind of worker, so many times; who goes first changes."""
        kinds = list(Access)
        for number in range(rounds):
            turn = number % len(kinds)
            for access in kinds[turn:] + kinds[:turn]:
                yield self._run_one(seeded, access, number)

    def _run_one(self, seeded: Seeded, access: Access, number: int) -> Run:
        """One worker on a branch and in a directory of its own; what takes room is removed."""
        mark = next(self._numbers)
        job = Job(
            access=access,
            repository=seeded.repository,
            branch=f"worker-{mark}",
            steps=self._steps,
            warm_ups=WARM_UPS,
            memory_mb=self._memory_mb,
            place=self._place / f"worker-{mark}",
        )
        job.place.mkdir()
        known = self._server.stored_files(job.repository)
        self._server.create_branch(job.repository, job.branch, seeded.ref)
        run = self._measure(job, seeded, number)
        check(run, seeded)
        self._server.delete_branch(job.repository, job.branch)
        remove_large(job.place.rglob("*"))
        self._server.forget_files(job.repository, known)
        return run

    def _measure(self, job: Job, seeded: Seeded, number: int) -> Run:
        server = self._server
        before = server.cpu_seconds, time.process_time()
        with CountingRelay(server.endpoint) as mine, CountingRelay(server.endpoint) as sparks:
            environment = {
                **server.environment,
                ENDPOINT: mine.endpoint,
                SPARK_ENDPOINT: sparks.endpoint,
                STRAIGHT_ENDPOINT: server.endpoint,
            }
            watch = run_worker(job, environment)
        after = server.cpu_seconds, time.process_time()
        found = json.loads(job.answer.read_text())
        return Run(
            scale=seeded.scale,
            rows=seeded.rows,
            access=job.access,
            round=number,
            warm_ups=[Step(**each) for each in found["warm_ups"]],
            steps=[Step(**each) for each in found["steps"]],
            worker_traffic=mine.traffic,
            spark_traffic=sparks.traffic,
            peaks=watch.peaks,
            server_cpu_seconds=after[0] - before[0],
            relay_cpu_seconds=after[1] - before[1],
        )


def count_rows(table: Path) -> int:
    """The rows of a CSV file, without its header."""
    with table.open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(1024**2), b"")) - 1


def run_worker(job: Job, environment: dict[str, str]) -> UsageWatch:
    """Run a worker's process to its end, and watch what it takes."""
    log = job.place / "worker.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.spark.worker"],
            cwd=PROJECT,
            env={**bare_environment(), **environment},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
        )
        try:
            with UsageWatch(process.pid, job.disk) as watch:
                process.communicate(json.dumps(asdict(job), default=os.fspath).encode())
        finally:
            # Its JVM ends with it, for it watches its standard input.
            if process.poll() is None:
                process.kill()
                process.wait()
    if process.returncode != 0 or not job.answer.exists():
        said = log.read_text(errors="replace")[-4000:]
        raise RuntimeError(f"a worker ended with {process.returncode}:\n{said}")
    return watch


def check(run: Run, seeded: Seeded) -> None:
    """Every flight is in each step's table, counted by the step itself from what it wrote."""
    for step in run.steps:
        rows = step.result["rows"]
        found = rows["flights"] if isinstance(rows, dict) and "flights" in rows else rows
        if step.name in ("clean", "join") and found != seeded.rows:
            raise RuntimeError(f"{step.name} wrote {found} flights of {seeded.rows}")

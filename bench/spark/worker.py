"""A process like a worker's executor, which runs attempts of Spark tasks one after another.

Whole attempts on the real ports, but for the orchestrator: it is in memory, on a clock that stands,
so that no lease ends however large the data. Each run is started through another store, straight to
the server: that is not the worker's work.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from pydantic import BaseModel

from bench.attempt import Stopwatch
from bench.spark.run import Job, Step
from bench.spark.timed_sessions import TimedSessions
from bench.transfer.perago_store import open_store
from examples.flights.clean import clean
from examples.flights.features import features
from examples.flights.join import join
from perago import Pipeline, SparkWorkspace, WorkspaceSpec, task
from perago.adapters.guardrails import LocalGuardrailEvaluator
from perago.adapters.lakefs import LakeFSWorkspaceStore
from perago.adapters.localfs.clock import SystemClock
from perago.adapters.localfs.directories import LocalAttemptDirectories
from perago.adapters.spark import (
    S3A,
    DirectAccess,
    JarCache,
    LocalSparkSessions,
    S3Gateway,
    SparkGuardrailEvaluator,
    SparkSettings,
)
from perago.app.attempt_policy import AttemptPolicy
from perago.app.attempt_ports import AttemptPorts
from perago.app.follow import RunRequest, start_run
from perago.app.run_attempt import AttemptRun
from perago.authoring import AnyTask
from perago.domain.access import Access
from perago.domain.ids import BranchName, ExecutionId, RepositoryName, WorkerId
from perago.domain.outcome import Completed
from perago.domain.workflow import PolledTask
from perago.runtime.failpoints import RuleFailpoints
from perago.runtime.isolation import ProcessIsolation
from perago.settings import resolve_settings
from perago.testing import FakeClock, MemoryOrchestrator

ENDPOINT = "LAKECTL_SERVER_ENDPOINT_URL"
STRAIGHT_ENDPOINT = "BENCH_SERVER_ENDPOINT"
"""The server itself, without a relay before it."""
SPARK_ENDPOINT = "BENCH_SPARK_ENDPOINT"


class WarmUpParams(BaseModel):
    """How many rows to write: another number each time, so that there is a change."""

    rows: int


class WarmUpResult(BaseModel):
    """How many there were."""

    rows: int


@task("warm_up", owner_email="bench@example.com", workspace=WorkspaceSpec("warm"))
def warm_up(workspace: SparkWorkspace, params: WarmUpParams) -> WarmUpResult:
    """Write a small table and read it: hardly any work, so what is left is what Perago adds."""
    workspace.write(workspace.spark.range(params.rows), "table")
    return WarmUpResult(rows=workspace.read_staged.parquet("table").count())


TASKS: dict[str, AnyTask] = {"clean": clean, "join": join, "features": features}


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """The ports of one executor, and the job that it is for."""

    job: Job
    ports: AttemptPorts
    sessions: TimedSessions
    straight: LakeFSWorkspaceStore

    def attempt(self, declared: AnyTask, params: dict[str, Any], number: int) -> Step:
        """One whole attempt."""
        polled, watch = self._poll(declared, params), Stopwatch()
        run = AttemptRun(
            declared,
            polled,
            ExecutionId(f"{number:032x}"),
            ports=self.ports,
            lease=watch,
            observer=watch,
            policy=AttemptPolicy(access=Access(self.job.access)),
        )
        began = time.perf_counter(), time.process_time(), jvm_cpu_seconds()
        end = run.run()
        over = time.perf_counter(), time.process_time(), jvm_cpu_seconds()
        seconds, own, sparks = (after - before for before, after in zip(began, over, strict=True))
        if not isinstance(end.outcome, Completed):
            raise SystemExit(f"the attempt of {declared.name} failed: {end.outcome}")
        result = end.outcome.output["result"]
        assert isinstance(result, dict)
        return Step(
            name=declared.name,
            seconds=seconds,
            worker_cpu_seconds=own,
            spark_cpu_seconds=sparks,
            phases={str(phase): sum(each) for phase, each in watch.phases.items()},
            spark=dict(self.sessions.last.seconds),
            result=dict(result),
        )

    def _poll(self, declared: AnyTask, params: dict[str, Any]) -> PolledTask:
        request = RunRequest(
            pipeline=Pipeline.of_task(declared),
            params=params,
            repository=RepositoryName(self.job.repository),
            branch=BranchName(self.job.branch),
        )
        orchestrator = self.ports.orchestrator
        start_run(request, store=self.straight, orchestrator=orchestrator)
        (polled,) = orchestrator.poll(
            [declared.name], worker_id=WorkerId("bench"), count=1, wait_seconds=0
        )
        return polled


def jvm_cpu_seconds() -> float:
    """What Spark's process used so far; it is a child of this one, and the only JVM."""
    times = [
        each.cpu_times()
        for each in psutil.Process().children(recursive=True)
        if each.name() == "java"
    ]
    return sum(each.user + each.system for each in times)


@contextmanager
def open_executor(job: Job) -> Iterator[Executor]:
    """Set up as an executor does; Spark is started by the first attempt."""
    environment, clock = os.environ, SystemClock()
    gateway = S3Gateway(
        endpoint=environment[SPARK_ENDPOINT],
        access_key_id=environment["LAKECTL_CREDENTIALS_ACCESS_KEY_ID"],
        secret_access_key=environment["LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"],
    )
    jars = JarCache(resolve_settings().settings.cache_directory / "spark")
    sessions = LocalSparkSessions(
        SparkSettings(memory_mb=job.memory_mb),
        job.disk["spark"],
        job.place / "spark.log",
        direct=DirectAccess(gateway=gateway, jars=lambda java: jars.get(S3A, java)),
    )
    with ExitStack() as stack:
        store = stack.enter_context(open_store(environment, job.disk["cache"]))
        straight = stack.enter_context(
            open_store({**environment, ENDPOINT: environment[STRAIGHT_ENDPOINT]})
        )
        stack.callback(sessions.stop)
        timed = TimedSessions(sessions)
        ports = AttemptPorts(
            store=store,
            orchestrator=MemoryOrchestrator(FakeClock()),
            directories=LocalAttemptDirectories(job.disk["workspaces"]),
            guardrails=LocalGuardrailEvaluator(),
            spark=timed,
            spark_guardrails=SparkGuardrailEvaluator(),
            isolation=ProcessIsolation(),
            clock=clock,
            failpoints=RuleFailpoints(),
            direct_store=store,
        )
        yield Executor(job=job, ports=ports, sessions=timed, straight=straight)


def main() -> None:
    """Run what standard input asks for, and answer."""
    request = json.load(sys.stdin)
    job = Job(**{**request, "place": Path(request["place"])})
    with open_executor(job) as executor:
        warm_ups = [
            executor.attempt(warm_up, {"rows": 10 + number}, number)
            for number in range(job.warm_ups)
        ]
        steps = [
            executor.attempt(TASKS[name], {}, job.warm_ups + number)
            for number, name in enumerate(job.steps)
        ]
    found = {"warm_ups": [asdict(each) for each in warm_ups], "steps": [asdict(e) for e in steps]}
    job.answer.write_text(json.dumps(found))


if __name__ == "__main__":
    main()

"""One attempt of Perago, in a process like an executor's: whole, on the real ports.

The orchestrator is the embedded one; the run is started through another store, so that the
attempt's own connections are made while it is timed.
"""

import os
from pathlib import Path

from pydantic import BaseModel

from bench.attempt import Stopwatch
from bench.transfer.child import Job, Timer, answer, read_request
from bench.transfer.perago_store import open_store
from bench.transfer.workload import Scenario, Workspace, run_body
from perago import Pipeline, WorkspaceSpec, task
from perago.adapters.embedded.orchestrator import EmbeddedOrchestrator
from perago.adapters.guardrails import LocalGuardrailEvaluator
from perago.adapters.localfs.clock import SystemClock
from perago.adapters.localfs.directories import LocalAttemptDirectories
from perago.adapters.spark import LocalSparkSessions, SparkGuardrailEvaluator, SparkSettings
from perago.app.attempt_ports import AttemptPorts
from perago.app.follow import RunRequest, start_run
from perago.app.run_attempt import AttemptRun
from perago.domain.ids import BranchName, ExecutionId, RepositoryName, WorkerId
from perago.domain.workflow import PolledTask
from perago.ports import Orchestrator, WorkspaceStore
from perago.runtime.failpoints import RuleFailpoints
from perago.runtime.isolation import ProcessIsolation


class Params(BaseModel):
    """What the body is to do."""

    scenario: str
    seed: int
    count: int
    size: int


class Result(BaseModel):
    """How long the body took."""

    seconds: float


@task("transfer", owner_email="bench@example.com", workspace=WorkspaceSpec(prefix="/"))
def transfer(workspace: Path, params: Params) -> Result:
    """Change as much as the scenario says."""
    files = Workspace(name="", count=params.count, size=params.size)
    return Result(seconds=run_body(workspace, Scenario(params.scenario), params.seed, files))


def main() -> None:
    """Set up as an executor does, run the attempt, and answer."""
    job, request = read_request()
    cache = Path(request["cache"]) if request["cache"] else None
    watch, clock = Stopwatch(), SystemClock()
    with (
        EmbeddedOrchestrator(job.place / "home", clock) as orchestrator,
        open_store(os.environ, cache, request["concurrency"]) as store,
    ):
        ports = AttemptPorts(
            store=store,
            orchestrator=orchestrator,
            directories=LocalAttemptDirectories(job.place / "workspaces"),
            guardrails=LocalGuardrailEvaluator(),
            spark=LocalSparkSessions(SparkSettings(), job.place / "spark"),
            spark_guardrails=SparkGuardrailEvaluator(),
            isolation=ProcessIsolation(),
            clock=clock,
            failpoints=RuleFailpoints(),
        )
        polled = poll(job, orchestrator)
        run = AttemptRun(
            transfer,
            polled,
            ExecutionId(f"{job.seed:032x}"),
            ports=ports,
            lease=watch,
            observer=watch,
        )
        with Timer() as timer:
            end = run.run()
    if end.outcome.status != "COMPLETED":
        raise SystemExit(f"the attempt failed: {end.outcome}")
    answer(request, timer, {str(phase): sum(each) for phase, each in watch.phases.items()})


def poll(job: Job, orchestrator: Orchestrator) -> PolledTask:
    """Start a run and take its only attempt."""
    with open_store(os.environ) as store:
        begin(job, store, orchestrator)
    (polled,) = orchestrator.poll(
        [transfer.name], worker_id=WorkerId("bench"), count=1, wait_seconds=0
    )
    return polled


def begin(job: Job, store: WorkspaceStore, orchestrator: Orchestrator) -> None:
    """Start a run of the task on the job's branch."""
    params = Params(
        scenario=job.scenario, seed=job.seed, count=job.workspace.count, size=job.workspace.size
    )
    run = RunRequest(
        pipeline=Pipeline.of_task(transfer),
        params=params.model_dump(),
        repository=RepositoryName(job.repository),
        branch=BranchName(job.branch),
    )
    start_run(run, store=store, orchestrator=orchestrator)


if __name__ == "__main__":
    main()

"""One attempt of the peer, in the peer's environment: its own executor loop on one assignment.

Everything but Conductor is the peer's: configuration from the environment, the task loaded by its
loader, its lakeFS runtime, its executor loop. Conductor's part is played by the assignment that
lies ready in the pipe, and by an attempt fence that finds the attempt as it was polled.
"""
# mypy: ignore-errors

import multiprocessing
import os
import time
from collections.abc import Callable
from uuid import uuid4

from perago.conductor_runtime.models import ConductorTaskAttempt
from perago.conductor_runtime.process_executor import run_process_executor_loop
from perago.conductor_runtime.process_ipc import ProcessTaskAssignment, StopProcessExecutor
from perago.lakefs_runtime import LakeFSWorkspaceRuntime

from bench.transfer.child import Job, Timer, answer, read_request
from perago import load_module_task, load_runtime_config, prepare_worker_runtime

TASK = "bench.transfer.peer_task"


class Stopwatch:
    """The peer's lakeFS runtime with a clock on each of its calls."""

    def __init__(self, runtime: LakeFSWorkspaceRuntime) -> None:
        self.phases: dict[str, float] = {}
        self.download_workspace = self._timed("download", runtime.download_workspace)
        self.stage_workspace = self._timed("stage", runtime.stage_workspace)
        self.publish_workspace = self._timed("publish", runtime.publish_workspace)
        self.complete_noop_workspace = self._timed("publish", runtime.complete_noop_workspace)
        self.cleanup_staging = self._timed("cleanup", runtime.cleanup_staging)

    def _timed(self, phase: str, call: Callable) -> Callable:
        def timed(*arguments: object) -> object:
            began = time.perf_counter()
            try:
                return call(*arguments)
            finally:
                self.phases[phase] = time.perf_counter() - began

        return timed


def main() -> None:
    """Set up as the peer's executor does, run the attempt, and answer."""
    job, request = read_request()
    config = load_runtime_config(TASK, cwd=job.place)
    task = load_module_task(TASK)
    worker = prepare_worker_runtime(config=config, module_target=TASK, env=os.environ.copy())
    runtime = LakeFSWorkspaceRuntime.from_config(
        config.lakefs, publish_budget=task.controls.publish_budget
    )
    watch = Stopwatch(runtime)
    attempt = make_attempt(job)
    ours, theirs = multiprocessing.Pipe()
    ours.send(ProcessTaskAssignment(attempt=attempt, execution_id=uuid4().hex))
    ours.send(StopProcessExecutor())
    with Timer() as timer:
        run_process_executor_loop(
            task=task,
            worker_id=worker.worker_id,
            workspace_root=config.workspace_root,
            connection=theirs,
            load_current_attempt=lambda current: current,
            failure_reason_max_length=config.failure_reason_max_length,
            workspace_runtime=watch,
        )
    result = ours.recv().result
    if result.status != "COMPLETED":
        raise SystemExit(f"the peer's attempt failed: {result.reason_for_incompletion}")
    answer(request, timer, {**watch.phases, "body": result.output["result"]["seconds"]})


def make_attempt(job: Job) -> ConductorTaskAttempt:
    """What Conductor would have handed out."""
    return ConductorTaskAttempt(
        workflow_instance_id=uuid4().hex,
        task_id=uuid4().hex,
        retry_count=0,
        task_def_name="transfer",
        reference_task_name="transfer",
        seq=1,
        iteration=0,
        status="IN_PROGRESS",
        input_data={
            "workspace": {
                "repository": job.repository,
                "branch": job.branch,
                "refType": "commit",
                "ref": job.ref,
            },
            "params": {
                "scenario": job.scenario,
                "seed": job.seed,
                "count": job.workspace.count,
                "size": job.workspace.size,
            },
        },
    )


if __name__ == "__main__":
    main()

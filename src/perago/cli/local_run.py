"""A run that is carried out here, by this process's own executors."""

from __future__ import annotations

from perago.app.follow import RunRequest, find_dead_attempts, start_run
from perago.app.prepare_run import ensure_repository, refuse_missing_tasks, refuse_unfinished
from perago.bootstrap import Application, Worker
from perago.cli.context import GlobalOptions
from perago.cli.output import Output
from perago.cli.session import Driver, Job, RunEnd
from perago.cli.targets import require_spark_for
from perago.domain.workflow import WorkflowState


class LocalRunner:
    """Starts runs of one job, and works until they are over."""

    def __init__(
        self, application: Application, options: GlobalOptions, output: Output, job: Job
    ) -> None:
        self._application = application
        self._output = output
        self._job = job
        self._driver = Driver(application, options, output)

    def begin(self, request: RunRequest) -> RunEnd:
        """Start a run and carry it out."""
        require_spark_for(self._job.pipeline.tasks, self._application.settings)
        return self._driver.drive(
            self._job, lambda _worker: begin_run(self._application, request, self._output)
        )

    def go_on(self, workflow: WorkflowState) -> RunEnd:
        """Carry out what is left of a run."""
        refuse_missing_tasks(workflow, self._job.pipeline)
        require_spark_for(self._job.pipeline.tasks, self._application.settings)
        return self._driver.drive(
            self._job,
            lambda worker: resume_run(self._application, worker, workflow),
            continued=True,
        )

    def report(self, workflow: WorkflowState) -> RunEnd:
        """What a run came to."""
        return RunEnd(report=self._driver.report(workflow))


def begin_run(application: Application, request: RunRequest, output: Output) -> WorkflowState:
    """Start a run; the caller holds the workspace root."""
    store, orchestrator = application.store, application.orchestrator
    make_way(application, request, output)
    return orchestrator.workflow(start_run(request, store=store, orchestrator=orchestrator))


def make_way(application: Application, request: RunRequest, output: Output) -> None:
    """See to it that the repository is there, and that no other run is in the way."""
    if not request.pipeline.needs_workspace:
        return
    store, repository, branch = application.store, request.repository, request.branch
    refuse_unfinished(application.orchestrator, repository, branch)
    # A ref says that something must be there already.
    if request.ref is None and ensure_repository(store, repository, branch):
        output.note(f"created repository {repository}")


def resume_run(application: Application, worker: Worker, run: WorkflowState) -> WorkflowState:
    """Go on with a run; the worker holds the workspace root, so it knows which others are dead."""
    found = application.orchestrator.workflow(run.id)
    for attempt in find_dead_attempts(found, worker.is_dead):
        worker.supervisor.fail_for_dead_worker(attempt)
    return found

"""Drives one run to its end: worker, view and signals around a supervisor.

Invariant: the workspace root is locked before a run begins, so that a second worker fails without
having started anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perago.app.run_report import RunReport, build_run_report
from perago.authoring import Pipeline
from perago.bootstrap import (
    Application,
    ExecutorFactory,
    Worker,
    describe_orchestrator,
    describe_store,
    open_worker,
)
from perago.cli.board import Board, plan_lines
from perago.cli.context import GlobalOptions
from perago.cli.errors import ExitCode
from perago.cli.follower import RunFollower
from perago.cli.lines import JsonView, PlainView
from perago.cli.live import LiveView
from perago.cli.output import Output, short_run
from perago.cli.views import RunHeader, RunView
from perago.cli.warned import warnings_to
from perago.domain.errors import PeragoError
from perago.domain.workflow import WorkflowState, WorkflowStatus
from perago.runtime.signals import stop_on_signals
from perago.runtime.supervisor import Supervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The code of a run: executors load it again, from the same place."""

    pipeline: Pipeline
    target: str
    search_path: Path
    continue_with: tuple[str, ...] | None = None
    """The words of a command that continues a run; `run TARGET --continue RUN` unless given."""

    @property
    def is_one_task(self) -> bool:
        """Whether the pipeline was made of a task that the TARGET names."""
        pipeline = self.pipeline
        return [task.name for task in pipeline.tasks] == [pipeline.name] and pipeline.version == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How the driving ended; the run itself may go on later."""

    report: RunReport

    is_elsewhere: bool = False
    """Whether workers elsewhere go on with it, whoever looks."""

    @property
    def exit_code(self) -> ExitCode:
        """By the run's status; a run that is not over was interrupted, or its following was."""
        status = self.report.workflow.status
        if not status.is_terminal:
            return ExitCode.INTERRUPTED
        return ExitCode.SUCCESS if status is WorkflowStatus.COMPLETED else ExitCode.FAILED


class Driver:
    """Everything that driving a run needs, whichever run it is."""

    def __init__(self, application: Application, options: GlobalOptions, output: Output) -> None:
        self._application = application
        self._options = options
        self._output = output

    def drive(
        self,
        job: Job,
        begin: Callable[[Worker], WorkflowState],
        *,
        continued: bool = False,
        on_death: Callable[[str], None] | None = None,
    ) -> RunEnd:
        """Lock the root, begin the run, and work until it is over or a signal comes.

        `on_death` hears the reference name of every step whose executor died.
        """
        application = self._application
        view = make_view(application, self._output, job.pipeline)
        follower = RunFollower(view, application.orchestrator, self._how_to_complete, on_death)
        factory = ExecutorFactory(
            settings=application.settings, targets=(job.target,), search_path=job.search_path
        )
        with (
            open_worker(application, job.pipeline.tasks, factory, follower) as worker,
            stop_on_signals(_Stop(worker.supervisor, view)),
        ):
            workflow = begin(worker)
            with view, warnings_to(view.warn):
                view.run_began(build_header(application, workflow, continued=continued))
                if (seconds := worker.supervisor.seconds_to_last_report) > 0:
                    view.warn(
                        "what the worker that died sent last may still be published: going on in "
                        f"{seconds:.0f} s"
                    )
                follower.follow(workflow)
                self._supervise(worker, follower, job, workflow)
                view.observed(application.orchestrator.workflow(workflow.id))
        return RunEnd(report=self.report(workflow))

    def _supervise(
        self, worker: Worker, follower: RunFollower, job: Job, workflow: WorkflowState
    ) -> None:
        try:
            worker.supervisor.run(follower.is_done)
        except PeragoError:
            # The run itself is unharmed: once the cause is gone, it can go on.
            self._output.note(
                f"the run goes on with: {continue_command(self._options, job, workflow)}"
            )
            raise

    def report(self, workflow: WorkflowState) -> RunReport:
        """What a run came to so far."""
        application = self._application
        return build_run_report(application.orchestrator.workflow(workflow.id), application.store)

    def _how_to_complete(self, run: str, reference: str) -> str:
        return self._options.command("complete", short_run(run), reference)


def make_view(application: Application, output: Output, pipeline: Pipeline) -> RunView:
    """The view for whoever reads the output."""
    clock = application.clock
    if output.as_json:
        return JsonView(output, clock.now)
    if output.is_live:
        board = Board(plan_lines(pipeline.workflow_definition()), clock.elapsed)
        return LiveView(output.console, board)
    return PlainView(output, clock.now)


def build_header(
    application: Application, workflow: WorkflowState, *, continued: bool
) -> RunHeader:
    """What is known of a run when it begins."""
    settings = application.settings
    workspace = workflow.input.get("workspace")
    place = None
    if isinstance(workspace, dict):
        place = f"{workspace['repository']}@{workspace['branch']}", str(workspace["ref"])
    elsewhere = settings.orchestrator != "embedded"
    return RunHeader(
        workflow=workflow,
        continued=continued,
        workspace=place,
        store=describe_store(settings),
        server=describe_orchestrator(settings) if elsewhere else None,
    )


def continue_command(options: GlobalOptions, job: Job, workflow: WorkflowState) -> str:
    """The command that goes on with a run."""
    words = job.continue_with or ("run", job.target, "--continue", workflow.id)
    return options.command(*words)


class _Stop:
    """What a signal does: drain at first, hurry from the second on."""

    def __init__(self, supervisor: Supervisor, view: RunView) -> None:
        self._supervisor = supervisor
        self._view = view

    def __call__(self) -> None:
        hurry = self._supervisor.is_stopping
        self._supervisor.request_stop()
        self._view.stop_requested(hurry=hurry)

"""A run on a Conductor server: started and followed here, carried out by workers elsewhere.

Invariant: nothing is registered that nobody asked to register, and a run that was started goes on
whatever becomes of this process.
"""

from __future__ import annotations

from perago.app.follow import RunRequest, launch_run
from perago.app.register import Change, RegistrationPlan, plan_registration, read_registered
from perago.app.register import register as write
from perago.app.run_report import RunReport, build_run_report
from perago.authoring import build_pipeline_definitions
from perago.bootstrap import Application
from perago.cli.context import GlobalOptions
from perago.cli.follower import RunFollower
from perago.cli.local_run import make_way
from perago.cli.output import Output, short_run
from perago.cli.session import Job, RunEnd, build_header, continue_command, make_view
from perago.cli.warned import warnings_to
from perago.cli.watcher import RunWatcher
from perago.domain.errors import UsageError
from perago.domain.workflow import WorkflowState
from perago.runtime.signals import stop_on_signals


class RemoteRunner:
    """Starts runs of one job on a server, and follows them."""

    def __init__(
        self,
        application: Application,
        options: GlobalOptions,
        output: Output,
        job: Job,
        *,
        register: bool,
    ) -> None:
        """With `register`, definitions that differ are registered; without, refused."""
        self._application = application
        self._options = options
        self._output = output
        self._job = job
        self._register = register

    def begin(self, request: RunRequest) -> RunEnd:
        """Start a run and follow it."""
        return self._follow(self._start(request), continued=False)

    def go_on(self, workflow: WorkflowState) -> RunEnd:
        """Follow a run again."""
        return self._follow(workflow, continued=True)

    def report(self, workflow: WorkflowState) -> RunEnd:
        """What a run came to."""
        report = build_run_report(workflow, self._application.store)
        return RunEnd(report=report, is_elsewhere=True)

    def _start(self, request: RunRequest) -> WorkflowState:
        """Start an instance of what is registered, which must be what the code declares."""
        store, orchestrator = self._application.store, self._application.orchestrator
        self._settle_definitions()
        make_way(self._application, request, self._output)
        return orchestrator.workflow(launch_run(request, store=store, orchestrator=orchestrator))

    def detach(self, request: RunRequest) -> None:
        """Start a run, say which it is, and leave it."""
        output, workflow = self._output, self._start(request)
        if output.as_json:
            view = make_view(self._application, output, self._job.pipeline)
            view.run_began(build_header(self._application, workflow, continued=False))
            return
        output.say(workflow.id)
        output.note(f"follow it with: {continue_command(self._options, self._job, workflow)}")

    def _follow(self, workflow: WorkflowState, *, continued: bool) -> RunEnd:
        """Show the run until it is over, or until Ctrl-C, which ends the showing only."""
        application = self._application
        view = make_view(application, self._output, self._job.pipeline)
        watcher = RunWatcher(
            view,
            RunFollower(view, application.orchestrator, self._how_to_complete),
            orchestrator=application.orchestrator,
            clock=application.clock,
            how_to_start=self._how_to_start,
        )
        try:
            with stop_on_signals(_interrupt), view, warnings_to(view.warn):
                view.run_began(build_header(application, workflow, continued=continued))
                workflow = watcher.watch(workflow, continued=continued)
        except KeyboardInterrupt:
            # No more questions: the server may be what somebody got tired of waiting for.
            seen = RunReport(workflow=watcher.last or workflow, published=())
            return RunEnd(report=seen, is_elsewhere=True)
        return self.report(workflow)

    def _settle_definitions(self) -> None:
        orchestrator = self._application.orchestrator
        declared = build_pipeline_definitions(self._job.pipeline)
        plan = plan_registration(declared, read_registered(orchestrator, declared))
        if not plan.to_write:
            return
        if not self._register:
            raise UsageError(
                f"the server does not have what the code declares: {_describe(plan)}",
                hint=self._how_to_register(),
            )
        write(orchestrator, plan)
        self._output.note("registered " + ", ".join(one.title for one in plan.to_write))

    def _how_to_register(self) -> str:
        target = self._job.target
        with_flag = f"`{self._options.command('run', target, '--register')}` registers it first"
        if self._job.is_one_task:  # whose workflow is no declaration: only its run has one
            return with_flag
        command = self._options.command("register", target)
        return f"`{command}` shows the difference and registers it; {with_flag}"

    def _how_to_start(self, task_name: str) -> str:
        if task_name in {task.name for task in self._job.pipeline.tasks}:
            return f"start one with `{self._options.command('start', self._job.target)}`"
        return f"start one that serves task {task_name!r}"

    def _how_to_complete(self, run: str, reference: str) -> str:
        return self._options.command("complete", short_run(run), reference)


def _describe(plan: RegistrationPlan) -> str:
    return "; ".join(
        f"{one.title} is not registered"
        if one.change is Change.NEW
        else f"{one.title} differs in {', '.join(each.path for each in one.differences)}"
        for one in plan.to_write
    )


def _interrupt() -> None:
    raise KeyboardInterrupt

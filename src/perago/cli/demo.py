"""`perago demo`: the flights pipeline, run and explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perago.cli.context import help_text, options_of
from perago.cli.errors import ExitCode
from perago.cli.output import Output
from perago.domain.ids import BranchName, RepositoryName

if TYPE_CHECKING:
    from perago.app.follow import RunRequest
    from perago.bootstrap import Application, Worker
    from perago.domain.workflow import WorkflowState

HELP = help_text(
    "Run the example pipeline on real flight data with Spark, and show what it did.",
    {
        "perago demo": "run it; a second time nothing changes, and no commit is made",
        "perago demo --crash": "kill a worker at the worst moment and see the retry repair it",
        "perago demo --fresh": "from an empty repository again",
    },
    "Store and orchestrator are the embedded ones, whatever the settings choose.",
    "Needs Java 17 or 21 and the demo extra: pip install 'perago-runtime[demo]'.",
)

_REPOSITORY = "flights"
_CRASH_REPOSITORY = "flights-crash"


def demo(
    context: typer.Context,
    crash: Annotated[
        bool,
        typer.Option("--crash", help="Kill a worker between publication and completion."),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Use a new repository instead of the last one.")
    ] = False,
) -> None:
    """Run the example pipeline."""
    from perago.app.follow import RunRequest
    from perago.bootstrap import open_application
    from perago.cli.demo_show import CrashWitness, show_crash, show_demo
    from perago.cli.example import CRASH_STEP, load_example
    from perago.cli.run_end import show_end
    from perago.cli.session import Driver
    from perago.cli.targets import require_spark_for

    output, options = Output(), options_of(context).on_embedded()
    job = load_example("demo", *(["--crash"] if crash else []))
    # Whatever the environment says: a demo touches nobody's servers.
    settings = options.settings(
        store="embedded",
        orchestrator="embedded",
        failpoints=f"published=kill@{CRASH_STEP}#0" if crash else None,
    ).model_copy(update={"spark_master": "local", "spark_remote": None})
    require_spark_for(job.pipeline.tasks, settings)
    with open_application(settings, create=True) as application:
        repository, unfinished = choose_repository(application, crash=crash, fresh=fresh)
        request = RunRequest(
            pipeline=job.pipeline,
            params={},
            repository=repository,
            branch=BranchName(settings.branch),
        )
        witness = CrashWitness(application.store, request.repository, request.branch)
        end = Driver(application, options, output).drive(
            job,
            lambda worker: _begin(worker, application, request, unfinished, output),
            continued=unfinished is not None,
            on_death=witness,
        )
        show_end(output, options, job, end)
        if end.exit_code is ExitCode.SUCCESS:
            show_demo(output, application, end)
            # Of a run that went on, the crash may have happened before anybody was looking.
            if crash and not show_crash(output, witness, CRASH_STEP, end) and unfinished is None:
                raise typer.Exit(ExitCode.FAILED)
    raise typer.Exit(end.exit_code)


def choose_repository(
    application: Application, *, crash: bool, fresh: bool
) -> tuple[RepositoryName, WorkflowState | None]:
    """The demo's repository, and the run on it that was interrupted.

    A crash is only worth seeing where something is published, so it gets a new repository, unless
    it was interrupted in the last one.
    """
    from perago.app.prepare_run import find_unfinished

    base = _CRASH_REPOSITORY if crash else _REPOSITORY
    names = [base, *(f"{base}-{number}" for number in range(2, 1000))]
    taken = set(application.store.repositories())
    made = [RepositoryName(name) for name in names if name in taken]
    free = RepositoryName(next(name for name in names if name not in taken))
    if fresh or not made:
        return free, None
    branch = BranchName(application.settings.branch)
    unfinished = find_unfinished(application.orchestrator, made[-1], branch)
    return (free if crash and unfinished is None else made[-1]), unfinished


def _begin(
    worker: Worker,
    application: Application,
    request: RunRequest,
    unfinished: WorkflowState | None,
    output: Output,
) -> WorkflowState:
    from perago.cli.local_run import begin_run, resume_run

    orchestrator = application.orchestrator
    # This worker would serve the runs of earlier demos too. The root is locked: nobody else does.
    for run_id in orchestrator.workflow_ids(limit=1000, unfinished=True):
        run = orchestrator.workflow(run_id)
        is_this = unfinished is not None and run.id == unfinished.id
        if run.name == request.pipeline.name and not run.status.is_terminal and not is_this:
            orchestrator.terminate(run.id, "another demo was started")
    if unfinished is None:
        return begin_run(application, request, output)
    output.note("the last demo was interrupted: going on with it")
    return resume_run(application, worker, unfinished)

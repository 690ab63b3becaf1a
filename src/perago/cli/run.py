"""`perago run`: start a run, or go on with one, and stay until it is over."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perago.cli.context import JsonFlag, help_text, options_of
from perago.cli.output import Output
from perago.cli.params import read_params
from perago.domain.errors import UsageError
from perago.domain.ids import BranchName, RepositoryName

if TYPE_CHECKING:
    from perago.app.follow import RunRequest
    from perago.app.prepare_run import GivenInput
    from perago.bootstrap import Application, Worker
    from perago.cli.session import Driver, Job, RunEnd
    from perago.domain.workflow import WorkflowState

HELP = help_text(
    "Run a pipeline or a task here, step by step; each writing step becomes one commit.",
    {
        "perago run flights.py": "the pipeline in a file of this directory",
        "perago run jobs.etl:nightly -j 2": "one of several in a module; two steps at a time",
        "perago run flights.py --param year=2013": "a param; 2013 is read as JSON, else as text",
        "perago run flights.py --repo lab --ref 3f2a9c41": "from an older commit",
        "perago run flights.py --continue last": "go on after a crash or Ctrl-C",
        "perago run flights.py --json": "one JSON object per event, for a program",
    },
    "TARGET is module, module:name, path.py or path.py:name; this directory is importable. A "
    "repository that does not exist is created. Ctrl-C lets running steps finish, a second one "
    "gives them up, which costs each a retry; `--continue` goes on with the run.",
    "The store is the embedded one unless the settings name a lakeFS server; the first lines say "
    "which. The embedded store's publish fence is atomic: of two racing publications one succeeds. "
    "On lakeFS it is soft: a race is found out afterwards, not excluded, so let one run at a time "
    "write a branch.",
)

Target = Annotated[
    str, typer.Argument(metavar="TARGET", help="module, module:name, path.py or path.py:name")
]


def run(
    context: typer.Context,
    target: Target,
    *,
    repo: Annotated[
        str | None, typer.Option("--repo", "--repository", help="The repository to work on.")
    ] = None,
    branch: Annotated[str | None, typer.Option("--branch", help="The branch to advance.")] = None,
    ref: Annotated[
        str | None,
        typer.Option("--ref", help="Start from this commit instead of the branch's head."),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="K=V", help="A param; a.b=1 nests. Repeatable."),
    ] = None,
    params_file: Annotated[
        Path | None, typer.Option("--params-file", help="Params from a JSON or TOML file.")
    ] = None,
    executors: Annotated[
        int | None,
        typer.Option("-j", "--executors", min=1, help="How many steps may run at a time."),
    ] = None,
    continue_run: Annotated[
        str | None,
        typer.Option("--continue", metavar="RUN", help="Go on with this run, or with `last`."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a pipeline or a task."""
    from perago.app.follow import RunRequest
    from perago.app.prepare_run import GivenInput
    from perago.bootstrap import open_application
    from perago.cli.run_end import show_end
    from perago.cli.session import Driver
    from perago.cli.targets import load_job, require_spark_for

    output, options = Output(as_json=as_json), options_of(context)
    settings = options.settings(repository=repo, branch=branch, executors=executors)
    job = load_job(target, Path.cwd())
    params = None
    if continue_run is None or param or params_file:
        params = job.pipeline.validate_params(read_params(params_file, param or ()))
    with open_application(settings, create=continue_run is None) as application:
        driver = Driver(application, options, output)
        if continue_run is None:
            require_spark_for(job.pipeline.tasks)
            request = RunRequest(
                pipeline=job.pipeline,
                params=params or {},
                repository=RepositoryName(settings.repository),
                branch=BranchName(settings.branch),
                ref=ref,
            )
            end = driver.drive(job, lambda _worker: begin_run(application, request, output))
        else:
            given = GivenInput(repository=repo, branch=branch, ref=ref, params=params)
            end = _continue(driver, application, job, continue_run, given)
        show_end(output, options, job, end)
    raise typer.Exit(end.exit_code)


def begin_run(application: Application, request: RunRequest, output: Output) -> WorkflowState:
    """Start a run; the caller holds the workspace root."""
    from perago.app.follow import start_run
    from perago.app.prepare_run import ensure_repository, refuse_unfinished

    store, orchestrator = application.store, application.orchestrator
    if request.pipeline.needs_workspace:
        refuse_unfinished(orchestrator, request.repository, request.branch)
        # A ref says that something must be there already.
        if request.ref is None and ensure_repository(store, request.repository, request.branch):
            output.note(f"created repository {request.repository}")
    return orchestrator.workflow(start_run(request, store=store, orchestrator=orchestrator))


def _continue(
    driver: Driver, application: Application, job: Job, text: str, given: GivenInput
) -> RunEnd:
    """Drive a run that was left behind; one that is over is only reported."""
    from perago.app.follow import find_run
    from perago.app.prepare_run import refuse_contradiction, refuse_missing_tasks
    from perago.cli.session import RunEnd
    from perago.cli.targets import require_spark_for

    found = find_run(application.orchestrator, text)
    if found.name != job.pipeline.name:
        raise UsageError(
            f"run {found.id} is a run of {found.name!r}, and {job.target} is {job.pipeline.name!r}",
            hint="give the TARGET that the run was started with",
        )
    refuse_contradiction(found, given, application.store)
    if found.status.is_terminal:
        return RunEnd(report=driver.report(found))
    refuse_missing_tasks(found, job.pipeline)
    require_spark_for(job.pipeline.tasks)
    return driver.drive(job, lambda worker: resume_run(application, worker, found), continued=True)


def resume_run(application: Application, worker: Worker, run: WorkflowState) -> WorkflowState:
    """Go on with a run; the worker holds the workspace root, so it knows which others are dead."""
    from perago.app.follow import find_dead_attempts

    found = application.orchestrator.workflow(run.id)
    for attempt in find_dead_attempts(found, worker.is_dead):
        worker.supervisor.fail_for_dead_worker(attempt)
    return found

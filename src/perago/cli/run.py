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
    from perago.app.prepare_run import GivenInput
    from perago.bootstrap import Application
    from perago.cli.session import Job
    from perago.domain.workflow import WorkflowState
    from perago.settings import Settings

HELP = help_text(
    "Run a pipeline or a task, step by step; each writing step becomes one commit.",
    {
        "perago run flights.py": "the pipeline in a file of this directory",
        "perago run jobs.etl:nightly -j 2": "one of several in a module; two steps at a time",
        "perago run flights.py --param year=2013": "a param; 2013 is read as JSON, else as text",
        "perago run flights.py --repo lab --ref 3f2a9c41": "from an older commit",
        "perago run flights.py --continue last": "go on after a crash or Ctrl-C",
        "perago run flights.py --detach": "on Conductor: print the run's id and leave it",
        "perago run flights.py --json": "one JSON object per event, for a program",
    },
    "TARGET is module, module:name, path.py or path.py:name; this directory is importable. A "
    "repository that does not exist is created. Ctrl-C lets running steps finish, a second one "
    "gives them up, which costs each a retry; `--continue` goes on with the run.",
    "The store is the embedded one unless the settings name a lakeFS server; the first lines say "
    "which. The embedded store's publish fence is atomic: of two racing publications one succeeds. "
    "On lakeFS it is soft: a race is found out afterwards, not excluded, so let one run at a time "
    "write a branch.",
    "Where the settings name a Conductor server (PERAGO_CONDUCTOR_URL or CONDUCTOR_SERVER_URL), "
    "nothing runs here: the run is started there and followed, and workers (`perago start TARGET`) "
    "carry it out. What the code declares must be registered (`perago register TARGET`, or "
    "--register). Ctrl-C then stops the following, not the run; `--continue` follows it again.",
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
    register: Annotated[
        bool, typer.Option("--register", help="On Conductor: register what differs first.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="On Conductor: do not follow the run.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Run a pipeline or a task."""
    from perago.app.follow import RunRequest
    from perago.app.prepare_run import GivenInput
    from perago.bootstrap import open_application
    from perago.cli.local_run import LocalRunner
    from perago.cli.remote_run import RemoteRunner
    from perago.cli.run_end import show_end
    from perago.cli.targets import load_job

    output, options = Output(as_json=as_json), options_of(context)
    settings = options.settings(repository=repo, branch=branch, executors=executors)
    given_flags = {
        "-j": executors is not None,
        "--register": register,
        "--detach": detach,
        "--continue": continue_run is not None,
    }
    _refuse_misfits(settings, target, {flag for flag, is_given in given_flags.items() if is_given})
    job = load_job(target, Path.cwd())
    params = None
    if continue_run is None or param or params_file:
        params = job.pipeline.validate_params(read_params(params_file, param or ()))
    with open_application(settings, create=continue_run is None) as application:
        runner: LocalRunner | RemoteRunner
        if settings.orchestrator == "embedded":
            runner = LocalRunner(application, options, output, job)
        else:
            runner = RemoteRunner(application, options, output, job, register=register)
        if continue_run is not None:
            given = GivenInput(repository=repo, branch=branch, ref=ref, params=params)
            found = _find_run(application, job, continue_run, given)
            end = runner.report(found) if found.status.is_terminal else runner.go_on(found)
        else:
            request = RunRequest(
                pipeline=job.pipeline,
                params=params or {},
                repository=RepositoryName(settings.repository),
                branch=BranchName(settings.branch),
                ref=ref,
            )
            if detach and isinstance(runner, RemoteRunner):
                return runner.detach(request)
            end = runner.begin(request)
        show_end(output, options, job, end)
    raise typer.Exit(end.exit_code)


def _find_run(application: Application, job: Job, text: str, given: GivenInput) -> WorkflowState:
    """A run to go on with; it must be one of this code, started with what is given."""
    from perago.app.follow import find_run
    from perago.app.prepare_run import refuse_contradiction

    found = find_run(application.orchestrator, text)
    if found.name != job.pipeline.name:
        raise UsageError(
            f"run {found.id} is a run of {found.name!r}, and {job.target} is {job.pipeline.name!r}",
            hint="give the TARGET that the run was started with",
        )
    refuse_contradiction(found, given, application.store)
    return found


def _refuse_misfits(settings: Settings, target: str, given: set[str]) -> None:
    """Raise for what makes no sense with the orchestrator that was chosen."""
    if settings.orchestrator == "embedded":
        if there := sorted(given & {"--detach", "--register"}):
            raise UsageError(
                f"{there[0]} is for a Conductor server, and the run would be carried out here",
                hint="leave it out, or set PERAGO_CONDUCTOR_URL",
            )
    elif "-j" in given:
        raise UsageError(
            "-j says how many steps run here, and on Conductor none does",
            hint=f"give it to the worker: `perago start {target} -j N`",
        )
    elif "--continue" in given and (new := sorted(given & {"--detach", "--register"})):
        raise UsageError(
            f"{new[0]} and --continue exclude each other: that run was started already",
            hint="leave one of them out",
        )

"""`perago demo`: the flights pipeline, run and explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perago.cli.context import help_text, options_of
from perago.cli.errors import ExitCode
from perago.cli.output import Output
from perago.domain.ids import BranchName, RepositoryName

if TYPE_CHECKING:
    from perago.bootstrap import Application

HELP = help_text(
    "Run the example pipeline on real flight data with Spark, and show what it did.",
    {
        "perago demo": "run it; a second time nothing changes, and no commit is made",
        "perago demo --crash": "kill a worker at the worst moment and see the retry repair it",
        "perago demo --fresh": "from an empty repository again",
    },
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
    from perago.app.prepare_run import find_unfinished
    from perago.bootstrap import open_application
    from perago.cli.demo_show import CrashWitness, show_crash, show_demo
    from perago.cli.example import CRASH_STEP, load_example
    from perago.cli.run import resume, start
    from perago.cli.run_end import show_end
    from perago.cli.session import Driver
    from perago.cli.targets import require_spark_for

    output, options = Output(), options_of(context)
    job = load_example()
    require_spark_for(job.pipeline.tasks)
    settings = options.settings(failpoints=f"published=kill@{CRASH_STEP}#0" if crash else None)
    with open_application(settings, create=True) as application:
        driver = Driver(application, options, output)
        request = RunRequest(
            pipeline=job.pipeline,
            params={},
            repository=_choose_repository(application, crash=crash, fresh=fresh),
            branch=BranchName(settings.branch),
        )
        witness = CrashWitness(application.store, request.repository, request.branch)
        unfinished = find_unfinished(application.orchestrator, request.repository, request.branch)
        if unfinished is not None:
            output.say("the last demo was interrupted: going on with it")
            end = resume(driver, application, job, unfinished)
        else:
            end = start(driver, application, job, request, output, on_death=witness)
        show_end(output, options, job, end)
        if end.exit_code is ExitCode.SUCCESS:
            show_demo(output, application, end)
            if crash and not show_crash(output, witness, CRASH_STEP, end):
                raise typer.Exit(ExitCode.FAILED)
    raise typer.Exit(end.exit_code)


def _choose_repository(application: Application, *, crash: bool, fresh: bool) -> RepositoryName:
    """The demo's repository; a crash is only worth seeing where something is published."""
    base = _CRASH_REPOSITORY if crash else _REPOSITORY
    taken = set(application.store.repositories())
    if not (crash or fresh) or base not in taken:
        return RepositoryName(base)
    number = 2
    while f"{base}-{number}" in taken:
        number += 1
    return RepositoryName(f"{base}-{number}")

"""`perago store import|export|verify|gc`: bytes in and out of the store, and its upkeep."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from perago.cli.context import JsonFlag, help_text, options_of
from perago.cli.errors import ExitCode
from perago.cli.output import Output, plural, short, show_bytes
from perago.cli.references import parse_duration, parse_place
from perago.cli.speed import showing_transfer
from perago.cli.store import Place, resolve_place
from perago.domain.errors import UsageError
from perago.domain.ids import BranchName
from perago.domain.outcome import JsonValue
from perago.domain.visible_text import visible
from perago.domain.workspace import Prefix

IMPORT_HELP = help_text(
    "Commit the files of a directory to a branch.",
    {
        "perago store import ./raw flights --prefix raw": "",
        "perago store import ./all flights@lab --mirror": "also delete what the directory lacks",
    },
    "No commit is made when the branch holds the same files already.",
)
EXPORT_HELP = help_text(
    "Write objects as files into an empty or new directory.",
    {
        "perago store export flights ./out": "everything at the head of the default branch",
        "perago store export flights@3f2a9c41 ./out --prefix report": "a part, at a commit",
    },
)
VERIFY_HELP = help_text(
    "Check every stored byte and every reference against its hash.",
    {"perago store verify": "exits with 1 when something is damaged"},
    "For the embedded store. On lakeFS every download is checked, and the rest is its operator's.",
)
GC_HELP = help_text(
    "Remove what nothing leads to any more.",
    {
        "perago store gc": "leave what is younger than a day",
        "perago store gc --grace 2h": "or than two hours",
    },
    "Branches, the inputs of unfinished runs and writes under way are kept. Abandoned commits, "
    "which could be read by id until now, go.",
    "For the embedded store. On lakeFS garbage collection is its operator's job, and `perago gc "
    "--staging` removes what Perago's executions left.",
)

PrefixOption = Annotated[str, typer.Option("--prefix", help="The place in the repository.")]


def import_files(
    context: typer.Context,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="What to import.")],
    place: Annotated[str, typer.Argument(metavar="REPO[@BRANCH]", help="Where to.")],
    prefix: PrefixOption = "/",
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="The commit's message.")
    ] = None,
    mirror: Annotated[
        bool, typer.Option("--mirror", help="Delete objects that the directory does not have.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Commit the files of a directory."""
    from perago.app.transfer import ImportRequest, import_directory
    from perago.bootstrap import open_application, scan_tree

    output = Output(as_json=as_json)
    to = parse_place(place)
    settings = options_of(context).settings()
    if settings.home.resolve().is_relative_to(directory.resolve()):
        raise UsageError(
            f"{directory} holds Perago's own home, {settings.home}",
            hint="import a directory below it or beside it",
        )
    with open_application(settings) as application:
        branch = BranchName(to.ref or application.settings.branch)
        request = ImportRequest(
            directory=directory,
            repository=to.repository,
            branch=branch,
            prefix=Prefix.parse(prefix),
            message=message or f"Import {directory.resolve().name}",
            mirror=mirror,
        )
        store = application.store
        with showing_transfer(output, "importing", application.clock.elapsed) as counter:
            commit = import_directory(request, store=store, scan=scan_tree, on_transfer=counter)
    moved = counter.moved
    output.answer(
        {
            "repository": to.repository,
            "branch": branch,
            "commit": None if commit is None else commit.id,
            **moved.as_json(),
        }
    )
    if commit is None:
        output.say("nothing changed: no commit")
    else:
        output.say(f"{to.repository}@{branch} is at {short(commit.id)}: {moved.describe()}")


def export_files(
    context: typer.Context,
    place: Place,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="An empty or new directory.")],
    prefix: PrefixOption = "/",
    as_json: JsonFlag = False,
) -> None:
    """Write objects as files."""
    from perago.app.transfer import export_directory
    from perago.bootstrap import disk_of, open_application

    output = Output(as_json=as_json)
    at = parse_place(place)
    with open_application(options_of(context).settings()) as application:
        commit = resolve_place(application, at)
        with showing_transfer(output, "exporting", application.clock.elapsed) as counter:
            count = export_directory(
                directory,
                store=application.store,
                repository=at.repository,
                commit=commit,
                prefix=Prefix.parse(prefix),
                disk=disk_of(directory),
                on_transfer=counter,
            )
    moved = counter.moved
    output.answer(
        {
            "repository": at.repository,
            "commit": commit,
            "directory": str(directory),
            **moved.as_json(),
            "objects": count,
        }
    )
    output.say(f"wrote {moved.describe()} of {at.repository}@{short(commit)} to {directory}")


def verify(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Check the whole store."""
    from perago.bootstrap import open_application

    output = Output(as_json=as_json)
    with open_application(options_of(context).settings()) as application:
        report = application.embedded_store.verify()
    problems: list[JsonValue] = [
        {
            "what": problem.what,
            "affected": [
                {"repository": hit.repository, "commit": hit.commit, "path": hit.path}
                for hit in problem.affected
            ],
        }
        for problem in report.problems
    ]
    output.answer(
        {
            "clean": report.is_clean,
            "commits": report.commits,
            "objects": report.contents,
            "bytes": report.bytes_checked,
            "problems": problems,
        }
    )
    checked = (
        f"{plural(report.commits, 'commit')}, {plural(report.contents, 'content')}, "
        f"{show_bytes(report.bytes_checked)}"
    )
    for problem in report.problems:
        output.say(f"problem: {problem.what}", style="red")
        for hit in problem.affected:
            path = visible(hit.path) if hit.path else "all"
            output.say(f"  affects {path} of {hit.repository}@{short(hit.commit)}")
    if not report.is_clean:
        output.say(f"{plural(len(report.problems), 'problem')} in {checked}", style="red")
        raise typer.Exit(ExitCode.FAILED)
    output.say(f"clean: {checked}", style="green")


def gc(
    context: typer.Context,
    grace: Annotated[
        str, typer.Option("--grace", help="Leave what is younger: 24h, 30m, 90s, 2d.")
    ] = "24h",
    as_json: JsonFlag = False,
) -> None:
    """Remove what nothing leads to."""
    from perago.app.collect_garbage import collect_stagings, find_inputs_in_flight
    from perago.bootstrap import open_application

    output = Output(as_json=as_json)
    keep = timedelta(seconds=parse_duration(grace))
    with open_application(options_of(context).settings()) as application:
        store, orchestrator = application.embedded_store, application.orchestrator
        stagings = [
            branch
            for repository in store.repositories()
            for branch in collect_stagings(store, orchestrator, repository)
        ]
        report = store.gc(roots=find_inputs_in_flight(orchestrator), grace=keep)
    output.answer(
        {
            "stagings": len(stagings),
            "commits": report.commits,
            "objects": report.contents,
            "temporary_files": report.temporary_files,
            "bytes": report.bytes_freed,
        }
    )
    output.say(
        f"removed {plural(len(stagings), 'staging')}, {plural(report.commits, 'commit')}, "
        f"{plural(report.contents, 'content')}: {show_bytes(report.bytes_freed)}"
    )

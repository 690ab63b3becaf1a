"""`perago gc`: what executions left behind, removed once they are over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from perago.cli.context import JsonFlag, help_text, options_of
from perago.cli.output import Output, plural
from perago.cli.references import parse_repository
from perago.domain.errors import UsageError
from perago.domain.ids import RepositoryName
from perago.domain.outcome import JsonObject, JsonValue

if TYPE_CHECKING:
    from perago.app.collect_garbage import FoundStaging
    from perago.bootstrap import Application

HELP = help_text(
    "Remove what executions left behind in the store, whichever store it is.",
    {
        "perago gc --staging": "staging branches in the repository that `run` works on",
        "perago gc --staging flights lab": "in these",
        "perago gc --staging --all --dry-run": "in all; only show what would go",
    },
    "A staging branch goes when the orchestrator says that its attempt is over: one that a crash "
    "left, or one that keep_failed_staging kept. One whose attempt is unfinished, or unknown to "
    "this orchestrator, stays, and so does everything else. Stored content is collected by `perago "
    "store gc`, or on lakeFS by the server's own garbage collection.",
)

_WHY_LEFT = {
    "unfinished": "its attempt is not over",
    "unknown": "its attempt is unknown to this orchestrator",
    "no attempt": "it is an import's or a doctor's; delete it by hand once none is at work",
}


def gc(
    context: typer.Context,
    repos: Annotated[
        list[str] | None,
        typer.Argument(metavar="[REPO]...", help="Where; the repository of `run` unless given."),
    ] = None,
    *,
    staging: Annotated[
        bool, typer.Option("--staging", help="Remove staging branches of attempts that are over.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="In all repositories.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Remove nothing; show what would go.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Remove leftovers."""
    from perago.app.collect_garbage import Removal, StagingState, find_stagings, remove_stagings
    from perago.bootstrap import open_application

    if not staging:
        raise UsageError(
            "say what to remove",
            hint="--staging removes staging branches of attempts that are over; `perago store gc` "
            "removes what nothing leads to in the embedded store",
        )
    output = Output(as_json=as_json)
    with open_application(options_of(context).settings()) as application:
        store = application.store
        found = [
            staging_branch
            for repository in _choose(application, repos or [], every=every)
            for staging_branch in find_stagings(store, application.orchestrator, repository)
        ]
        over = [one for one in found if one.state is StagingState.OVER]
        removal = Removal(removed=over, failed=[]) if dry_run else remove_stagings(store, over)
    _show(output, removal.removed, [one for one in found if one not in over], dry_run=dry_run)
    for staging_branch, error in removal.failed:
        output.note(f"could not remove {staging_branch.branch}: {error.message}")
    if removal.failed:
        raise removal.failed[0][1]


def _choose(application: Application, repos: list[str], *, every: bool) -> list[RepositoryName]:
    if not every:
        return [*map(parse_repository, repos)] or [RepositoryName(application.settings.repository)]
    if repos:
        raise UsageError("--all and REPO exclude each other", hint="give one of them")
    return application.store.repositories()


def _show(
    output: Output, removed: list[FoundStaging], left: list[FoundStaging], *, dry_run: bool
) -> None:
    gone: list[JsonValue] = [_as_json(one) for one in removed]
    kept: list[JsonValue] = [{**_as_json(one), "why": _WHY_LEFT[one.state]} for one in left]
    output.answer({"dry_run": dry_run, "removed": gone, "left": kept})
    verb = "would remove" if dry_run else "removed"
    for one in removed:
        output.say(f"{verb} {one.branch} of {one.repository}")
    for one in left:
        output.say(f"left {one.branch} of {one.repository}: {_WHY_LEFT[one.state]}")
    output.say(f"{verb} {plural(len(removed), 'staging')}, left {len(left)}")


def _as_json(staging: FoundStaging) -> JsonObject:
    return {"repository": staging.repository, "branch": staging.branch}

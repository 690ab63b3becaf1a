"""`perago store`: repositories, their objects and their history."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from perago.cli.context import JsonFlag, help_text, options_of
from perago.cli.output import Output, json_time, short, show_bytes, show_time
from perago.cli.references import StorePlace, parse_place, parse_repository
from perago.domain.ids import BranchName, CommitId
from perago.domain.outcome import JsonObject, JsonValue
from perago.domain.publication import Commit
from perago.domain.visible_text import visible
from perago.domain.workspace import Prefix

if TYPE_CHECKING:
    from perago.bootstrap import Application

INIT_HELP = help_text(
    "Create a repository.",
    {
        "perago store init flights": "with an empty branch `main`",
        "perago store init flights --branch trunk": "with another first branch",
    },
)
REPOS_HELP = help_text("List the repositories.", {"perago store repos": ""})
BRANCHES_HELP = help_text(
    "List the branches of a repository.",
    {
        "perago store branches flights": "",
        "perago store branches flights --all": "also the staging branches that Perago made",
    },
)
BRANCH_HELP = help_text(
    "Create a branch.",
    {
        "perago store branch flights@main lab": "a branch `lab` where `main` stands",
        "perago store branch flights@3f2a9c41 lab": "at an older commit",
    },
)
LS_HELP = help_text(
    "List objects.",
    {
        "perago store ls flights": "all objects at the head of the default branch",
        "perago store ls flights@3f2a9c41 raw/ -l": "below a prefix, at a commit, with sizes",
    },
)
LOG_HELP = help_text(
    "Show the history, newest first.",
    {
        "perago store log flights": "the default branch",
        "perago store log flights@lab -n 5": "the last five commits of another",
    },
)
DIFF_HELP = help_text(
    "Show which objects differ between two refs.",
    {"perago store diff flights 3f2a9c41 main": "what changed on the way from one to the other"},
    "A is an added, M a modified and D a deleted object.",
)

Place = Annotated[
    str,
    typer.Argument(metavar="REPO[@REF]", help="REF is a branch, a commit or 8 or more digits."),
]
Repo = Annotated[str, typer.Argument(metavar="REPO", help="A repository.")]


def init(
    context: typer.Context,
    repo: Repo,
    branch: Annotated[
        str | None, typer.Option("--branch", help="The first branch.", show_default=False)
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a repository."""
    from perago.bootstrap import open_application

    output = Output(as_json=as_json)
    settings = options_of(context).settings(branch=branch)
    repository = parse_repository(repo)
    with open_application(settings, create=True) as application:
        first = application.store.create_repository(repository, branch=BranchName(settings.branch))
    output.answer({"repository": repository, "branch": settings.branch, "commit": first.id})
    output.say(f"created {repository}@{settings.branch} at {short(first.id)}")


def repos(context: typer.Context, as_json: JsonFlag = False) -> None:
    """List the repositories."""
    from perago.bootstrap import open_application

    output = Output(as_json=as_json)
    with open_application(options_of(context).settings()) as application:
        names: list[JsonValue] = list(application.store.repositories())
    output.answer({"repositories": names})
    for name in names:
        output.say(visible(str(name)))


def branches(
    context: typer.Context,
    repo: Repo,
    show_all: Annotated[
        bool, typer.Option("--all", help="Also hidden ones: stagings of attempts.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """List the branches of a repository."""
    from perago.bootstrap import open_application

    output = Output(as_json=as_json)
    repository = parse_repository(repo)
    with open_application(options_of(context).settings()) as application:
        found = application.store.branches(repository, hidden=show_all)
    shown: list[JsonValue] = [
        {"name": branch.name, "head": branch.head, "hidden": branch.hidden} for branch in found
    ]
    output.answer({"repository": repository, "branches": shown})
    output.table(("branch", "head"), [(branch.name, short(branch.head)) for branch in found])


def branch(
    context: typer.Context,
    place: Place,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new branch.")],
    as_json: JsonFlag = False,
) -> None:
    """Create a branch."""
    from perago.bootstrap import open_application

    output = Output(as_json=as_json)
    at = parse_place(place)
    with open_application(options_of(context).settings()) as application:
        commit = resolve_place(application, at)
        application.store.create_branch(at.repository, BranchName(name), commit)
    output.answer({"repository": at.repository, "branch": name, "head": commit})
    output.say(f"created {at.repository}@{name} at {short(commit)}")


def ls(
    context: typer.Context,
    place: Place,
    prefix: Annotated[
        str, typer.Argument(metavar="PREFIX", help="Only objects below this path.")
    ] = "/",
    long: Annotated[bool, typer.Option("-l", "--long", help="With sizes and checksums.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """List objects."""
    from perago.bootstrap import open_application

    output = Output(as_json=as_json)
    at, below = parse_place(place), Prefix.parse(prefix)
    with open_application(options_of(context).settings()) as application:
        commit = resolve_place(application, at)
        entries = application.store.list_objects(at.repository, commit, below.key)
        if as_json:
            objects: list[JsonValue] = [
                {"path": entry.path, "size": entry.size, "checksum": entry.checksum}
                for entry in entries
            ]
            output.answer({"repository": at.repository, "commit": commit, "objects": objects})
            return
        # One by one: a listing of a million objects begins at once, and ends with `| head`.
        for entry in entries:
            size = f"{show_bytes(entry.size):>10}  {visible(entry.checksum[:12])}  " if long else ""
            output.say(f"{size}{visible(entry.path)}")


def log(
    context: typer.Context,
    place: Place,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", min=1, help="At most so many commits.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the history."""
    from perago.bootstrap import open_application

    output = Output(as_json=as_json)
    at = parse_place(place)
    with open_application(options_of(context).settings()) as application:
        head = resolve_place(application, at)
        commits = list(islice(application.store.log(at.repository, head), limit))
    shown: list[JsonValue] = [commit_json(commit) for commit in commits]
    output.answer({"repository": at.repository, "commits": shown})
    show_history(output, commits)


def diff(
    context: typer.Context,
    repo: Repo,
    old: Annotated[str, typer.Argument(metavar="REF1", help="From here …")],
    new: Annotated[str, typer.Argument(metavar="REF2", help="… to here.")],
    as_json: JsonFlag = False,
) -> None:
    """Show which objects differ."""
    from perago.app.transfer import diff_commits
    from perago.bootstrap import open_application

    output = Output(as_json=as_json)
    repository = parse_repository(repo)
    with open_application(options_of(context).settings()) as application:
        store = application.store
        first, second = store.resolve(repository, old), store.resolve(repository, new)
        changes = diff_commits(store, repository, first, second)
    added, modified, removed = sorted(changes.added), sorted(changes.modified), changes.removed
    output.answer(
        {
            "repository": repository,
            "from": first,
            "to": second,
            "added": list(added),
            "modified": list(modified),
            "removed": [*sorted(removed)],
        }
    )
    marked = [
        *(("A", path) for path in added),
        *(("M", path) for path in modified),
        *(("D", path) for path in removed),
    ]
    for letter, path in sorted(marked, key=lambda pair: pair[1]):
        output.say(f"{letter} {visible(path)}")


def resolve_place(application: Application, place: StorePlace) -> CommitId:
    """The commit that `REPO@REF` means; without a ref, the head of the default branch."""
    store, default = application.store, application.settings.branch
    return store.resolve(place.repository, default if place.ref is None else place.ref)


def show_history(output: Output, commits: list[Commit]) -> None:
    """A history for people, newest first."""
    rows = []
    for commit in commits:
        step = commit.metadata.get("perago.reference", "")
        retry = commit.metadata.get("perago.retry", "0")
        rows.append(
            (
                short(commit.id),
                show_time(commit.created_at),
                f"{step} (retry {retry})" if step and retry != "0" else step,
                commit.message.partition("\n")[0],
            )
        )
    output.table(("commit", "time", "step", "message"), rows)


def commit_json(commit: Commit) -> JsonObject:
    """A commit for programs."""
    metadata = dict(commit.metadata)
    return {
        "id": commit.id,
        "parents": list(commit.parents),
        "tree": commit.tree,
        "message": commit.message,
        "created_at": json_time(commit.created_at),
        "run": metadata.get("perago.workflow"),
        "step": metadata.get("perago.reference"),
        "task": metadata.get("perago.task"),
        "retry": _read_count(metadata.get("perago.retry", "")),
        "metadata": {**metadata},
    }


def _read_count(text: str) -> int | None:
    """A number that a commit's metadata holds, which anybody may have written."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None

"""What `perago demo` says after the run: the history, the report, and what the crash left."""

from __future__ import annotations

from pathlib import Path

from perago.app.transfer import export_directory
from perago.bootstrap import Application, disk_of
from perago.cli.output import Output, plural, short
from perago.cli.session import RunEnd
from perago.cli.store import show_history
from perago.domain.ids import BranchName, CommitId, RepositoryName
from perago.domain.publication import Commit
from perago.domain.workspace import Prefix
from perago.ports import WorkspaceStore
from perago.system.directories import make_own_directory
from perago.system.tags import Tag

_REPORT_PREFIX = "report"
_DEMO_TAG = Tag(
    purpose="the demo's report",
    advice="choose another home (--home or PERAGO_HOME), or move the directory away",
)


class CrashWitness:
    """Looks at the branch whenever an executor dies: what stands there was just published."""

    def __init__(
        self, store: WorkspaceStore, repository: RepositoryName, branch: BranchName
    ) -> None:
        self._store = store
        self._repository = repository
        self._branch = branch
        self._heads: dict[str, Commit] = {}

    def __call__(self, reference_name: str) -> None:
        self._heads[reference_name] = self._store.head(self._repository, self._branch)

    def abandoned(self, reference_name: str) -> Commit | None:
        """What a step had published when its executor died."""
        head = self._heads.get(reference_name)
        if head is None or head.metadata.get("perago.reference") != reference_name:
            return None
        return head

    def history(self) -> list[Commit]:
        """The branch as it is now, newest first."""
        head = self._store.head(self._repository, self._branch)
        return list(self._store.log(self._repository, head.id))


def show_demo(output: Output, application: Application, end: RunEnd) -> None:
    """The history of the branch, and the report as a file."""
    workspace = end.report.workflow.output["workspace"]
    assert isinstance(workspace, dict)
    repository, head = RepositoryName(str(workspace["repository"])), CommitId(str(workspace["ref"]))
    if not end.report.published:
        output.say("the same params on the same data give the same bytes, so no step had anything")
        output.say("to publish; `perago demo --fresh` starts over")
    output.say()
    output.say(f"history of {repository}@{workspace['branch']}", style="bold")
    show_history(output, list(application.store.log(repository, head)))
    report = _export_report(application, repository, head)
    if report is not None:
        output.say()
        output.say(f"report:   {report}", style="bold")


def show_crash(output: Output, witness: CrashWitness, step: str, end: RunEnd) -> bool:
    """Explain what the crash did, checking every word of it; False when it went otherwise."""
    abandoned, history = witness.abandoned(step), witness.history()
    final = next((made for made in end.report.published if made.reference_name == step), None)
    output.say()
    output.say("the crash", style="bold")
    if abandoned is None or final is None:
        output.say(f"{step} was not killed between publication and completion", style="red")
        return False
    before = short(abandoned.parents[0])
    output.say(f"1. {step} published {short(abandoned.id)} on top of {before}, and its executor")
    output.say("   was killed before it could report. Nobody knew that the step was done.")
    output.say(f"2. The retry started from {before} again. It found {short(abandoned.id)} there, a")
    output.say("   publication of its own step that nobody had reported, and replaced it")
    output.say(f"   with {short(final.commit)}.")
    is_gone = all(commit.id != abandoned.id for commit in history)
    is_linear = all(len(commit.parents) <= 1 for commit in history)
    steps = [commit.metadata.get("perago.reference") for commit in history[:-1]]
    is_single = len(steps) == len(set(steps)) == len(end.report.published)
    if not (is_gone and is_linear and is_single):
        output.say("3. The history is not what it must be; see above.", style="red")
        return False
    output.say(f"3. The history is linear: {plural(len(steps), 'commit')}, one for each writing")
    output.say(f"   step. {short(abandoned.id)} is not in it; until garbage is collected, it can")
    output.say("   still be read by its id.")
    return True


def _export_report(
    application: Application, repository: RepositoryName, head: CommitId
) -> Path | None:
    """Write the report's files below the home, and say where its page is."""
    demo = application.settings.home / "demo"
    with make_own_directory(demo, _DEMO_TAG) as own:
        own.remove_tree(repository)
    directory = demo / repository
    export_directory(
        directory,
        store=application.store,
        repository=repository,
        commit=head,
        prefix=Prefix.parse(_REPORT_PREFIX),
        disk=disk_of(directory),
        on_transfer=lambda _objects, _size: None,
    )
    return min(directory.rglob("*.html"), default=None)

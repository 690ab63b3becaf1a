"""What must hold before a run may start: its repository exists, and no other run is in its way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from perago.authoring import Pipeline
from perago.domain.errors import AlreadyExistsInStoreError, UsageError
from perago.domain.ids import BranchName, RepositoryName
from perago.domain.outcome import JsonObject, JsonValue
from perago.domain.workflow import WorkflowState
from perago.ports import Orchestrator, WorkspaceStore

MOST_UNFINISHED = 200
"""So many runs are looked at, one call each: a server may have thousands of other people's."""


def ensure_repository(
    store: WorkspaceStore, repository: RepositoryName, branch: BranchName
) -> bool:
    """Create the repository unless there is one; say whether it was created."""
    if repository in store.repositories():
        return False
    try:
        store.create_repository(repository, branch=branch)
    except AlreadyExistsInStoreError:  # somebody else was quicker, which is as good
        return False
    return True


def find_unfinished(
    orchestrator: Orchestrator, repository: RepositoryName, branch: BranchName
) -> WorkflowState | None:
    """A run that may still write the branch."""
    for run_id in orchestrator.workflow_ids(limit=MOST_UNFINISHED, unfinished=True):
        run = orchestrator.workflow(run_id)
        if not run.status.is_terminal and _target_of(run) == (repository, branch):
            return run
    return None


def refuse_unfinished(
    orchestrator: Orchestrator, repository: RepositoryName, branch: BranchName
) -> None:
    """Raise while another run may still write the branch.

    Both would start from the same commit, and the fence would fail one of them half-way.
    """
    run = find_unfinished(orchestrator, repository, branch)
    if run is not None:
        raise UsageError(
            f"run {run.id} ({run.name}) on {repository}/{branch} is not finished, "
            "and two runs cannot advance one branch",
            hint=f"go on with it: `perago run TARGET --continue {run.id}`; "
            f"or end it: `perago cancel {run.id}`",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenInput:
    """What somebody who continues a run says that it was started with; None is unsaid."""

    repository: str | None = None
    branch: str | None = None
    ref: str | None = None
    params: JsonObject | None = None


def refuse_contradiction(run: WorkflowState, given: GivenInput, store: WorkspaceStore) -> None:
    """Raise when a run was started with something else than is said: it keeps what it has."""
    workspace = run.input.get("workspace")
    has = workspace if isinstance(workspace, dict) else {}
    repository = str(has.get("repository"))
    said = {"--repo": given.repository, "--branch": given.branch, "--ref": given.ref}
    kept = {"--repo": repository, "--branch": has.get("branch"), "--ref": has.get("ref")}
    if given.ref is not None and has:
        said["--ref"] = store.resolve(RepositoryName(repository), given.ref)
    wrong = [name for name, value in said.items() if value is not None and value != kept[name]]
    if given.params is not None and given.params != run.input.get("params"):
        wrong.append("--param")
    if wrong:
        raise UsageError(
            f"run {run.id} was started with another {wrong[0]}, and keeps it",
            hint=f"leave {wrong[0]} out; `perago status {run.id} --json` shows the run's input",
        )


def _target_of(run: WorkflowState) -> tuple[object, object] | None:
    workspace = run.input.get("workspace")
    if not isinstance(workspace, dict):
        return None
    return workspace.get("repository"), workspace.get("branch")


def refuse_missing_tasks(run: WorkflowState, pipeline: Pipeline) -> None:
    """Raise when a run waits for a task that the pipeline no longer has: it would wait forever."""
    known = set(_task_names(pipeline.workflow_definition()["tasks"]))
    for task in run.tasks:
        name = task.attempt.task_name
        if task.task_type == "SIMPLE" and not task.status.is_terminal and name not in known:
            raise UsageError(
                f"run {run.id} waits for task {name!r}, which pipeline {pipeline.name!r} has not",
                hint="give the TARGET as it was when the run was started, or `perago cancel` it",
            )


def _task_names(tasks: JsonValue) -> Iterator[str]:
    """Every task name in a definition's tasks, those inside of forks too."""
    for task in tasks if isinstance(tasks, list) else []:
        if isinstance(task, dict):
            yield str(task.get("name"))
            branches = task.get("forkTasks")
            for branch in branches if isinstance(branches, list) else []:
                yield from _task_names(branch)

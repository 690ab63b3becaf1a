"""What must hold before a run may start: its repository exists, and no other run is in its way."""

from __future__ import annotations

from perago.domain.errors import AlreadyExistsInStoreError, UsageError
from perago.domain.ids import BranchName, RepositoryName
from perago.domain.workflow import WorkflowState
from perago.ports import Orchestrator, WorkspaceStore


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


def refuse_unfinished(
    orchestrator: Orchestrator, repository: RepositoryName, branch: BranchName
) -> None:
    """Raise while another run may still write the branch.

    Both would start from the same commit, and the fence would fail one of them half-way.
    """
    for run in orchestrator.workflows(limit=1000):
        if not run.status.is_terminal and _target_of(run) == (repository, branch):
            raise UsageError(
                f"run {run.id} ({run.name}) on {repository}/{branch} is not finished, "
                "and two runs cannot advance one branch",
                hint=f"go on with it: `perago run TARGET --continue {run.id}`; "
                f"or end it: `perago cancel {run.id}`",
            )


def _target_of(run: WorkflowState) -> tuple[object, object] | None:
    workspace = run.input.get("workspace")
    if not isinstance(workspace, dict):
        return None
    return workspace.get("repository"), workspace.get("branch")

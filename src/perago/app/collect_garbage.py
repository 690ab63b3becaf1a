"""Removes staging branches of executions that are over, and nothing else."""

from __future__ import annotations

from perago.domain.errors import NotFoundInOrchestratorError
from perago.domain.ids import BranchName, CommitId, RepositoryName, TaskId
from perago.domain.outcome import read_ref
from perago.domain.staging import parse_staging_name
from perago.ports import Orchestrator, WorkspaceStore


def collect_stagings(
    store: WorkspaceStore, orchestrator: Orchestrator, repository: RepositoryName
) -> list[BranchName]:
    """Delete leftovers of crashed executions.

    A staging goes only when the orchestrator positively says that its attempt is over; one that
    the orchestrator does not know may belong to somebody else and stays.
    """
    removed: list[BranchName] = []
    for branch in store.branches(repository, hidden=True):
        name = parse_staging_name(branch.name)
        if name is not None and _is_over(orchestrator, name.task_id):
            store.delete_branch(repository, branch.name)
            removed.append(branch.name)
    return removed


def find_inputs_in_flight(orchestrator: Orchestrator) -> set[CommitId]:
    """Every commit that an unfinished workflow instance may still read."""
    roots: set[CommitId] = set()
    for run in orchestrator.workflows(limit=10_000):
        if run.status.is_terminal:
            continue
        payloads = [run.input, *(task.input for task in run.tasks)]
        payloads += [task.output for task in run.tasks]
        roots.update(ref for payload in payloads if (ref := read_ref(payload)) is not None)
    return roots


def _is_over(orchestrator: Orchestrator, task_id: TaskId) -> bool:
    try:
        return orchestrator.snapshot(task_id).status.is_terminal
    except NotFoundInOrchestratorError:
        return False

"""Removes staging branches of executions that are over, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from perago.domain.errors import NotFoundInOrchestratorError, NotFoundInStoreError
from perago.domain.ids import BranchName, CommitId, RepositoryName, TaskId
from perago.domain.outcome import read_ref
from perago.domain.staging import parse_staging_name
from perago.ports import Orchestrator, WorkspaceStore


class StagingState(StrEnum):
    """What the orchestrator says of the attempt that a staging belongs to."""

    OVER = "over"
    UNFINISHED = "unfinished"
    UNKNOWN = "unknown"
    """It may belong to somebody else's orchestrator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundStaging:
    """A staging branch, and whether it may go."""

    repository: RepositoryName
    branch: BranchName
    state: StagingState


def find_stagings(
    store: WorkspaceStore, orchestrator: Orchestrator, repository: RepositoryName
) -> list[FoundStaging]:
    """Every staging branch of a repository: leftovers of crashes, kept ones, ones in use."""
    return [
        FoundStaging(
            repository=repository,
            branch=branch.name,
            state=_state_of(orchestrator, name.task_id),
        )
        for branch in store.branches(repository, hidden=True)
        if (name := parse_staging_name(branch.name)) is not None
    ]


def remove_stagings(store: WorkspaceStore, found: Iterable[FoundStaging]) -> list[FoundStaging]:
    """Delete those whose attempt is positively over, and return them."""
    removed: list[FoundStaging] = []
    for staging in found:
        if staging.state is not StagingState.OVER:
            continue
        try:
            store.delete_branch(staging.repository, staging.branch)
        except NotFoundInStoreError:
            continue  # its own execution was quicker
        removed.append(staging)
    return removed


def collect_stagings(
    store: WorkspaceStore, orchestrator: Orchestrator, repository: RepositoryName
) -> list[BranchName]:
    """Delete the leftovers in one repository, and return their names."""
    found = find_stagings(store, orchestrator, repository)
    return [staging.branch for staging in remove_stagings(store, found)]


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


def _state_of(orchestrator: Orchestrator, task_id: TaskId) -> StagingState:
    try:
        attempt = orchestrator.snapshot(task_id)
    except NotFoundInOrchestratorError:
        return StagingState.UNKNOWN
    return StagingState.OVER if attempt.status.is_terminal else StagingState.UNFINISHED

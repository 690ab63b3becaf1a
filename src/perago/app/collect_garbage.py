"""Removes staging branches of executions that are over, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from perago.domain.errors import (
    NotFoundInOrchestratorError,
    NotFoundInStoreError,
    OrchestratorError,
    PeragoError,
)
from perago.domain.ids import BranchName, CommitId, RepositoryName, WorkflowId
from perago.domain.json_limits import find_unreadable
from perago.domain.outcome import find_refs
from perago.domain.staging import STAGING_PREFIX, parse_staging_name
from perago.ports import Orchestrator, WorkspaceStore

_NO_LIMIT = 2**31 - 1


class StagingState(StrEnum):
    """What the orchestrator says of the attempt that a staging belongs to."""

    OVER = "over"
    UNFINISHED = "unfinished"
    UNKNOWN = "unknown"
    """It may belong to somebody else's orchestrator."""
    NO_ATTEMPT = "no attempt"
    """It is an import's or a doctor's, which may be at work."""


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
            state=_state_of(orchestrator, branch.name),
        )
        for branch in store.branches(repository, hidden=True)
        if branch.hidden and branch.name.startswith(STAGING_PREFIX)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What was deleted, and what could not be, with the reason."""

    removed: list[FoundStaging]
    failed: list[tuple[FoundStaging, PeragoError]]


def remove_stagings(store: WorkspaceStore, found: Iterable[FoundStaging]) -> Removal:
    """Delete those whose attempt is positively over; one that cannot be keeps no other."""
    removal = Removal(removed=[], failed=[])
    for staging in found:
        if staging.state is not StagingState.OVER:
            continue
        try:
            store.delete_branch(staging.repository, staging.branch)
        except NotFoundInStoreError:
            continue  # its own execution was quicker
        except PeragoError as error:
            removal.failed.append((staging, error))
        else:
            removal.removed.append(staging)
    return removal


def collect_stagings(
    store: WorkspaceStore, orchestrator: Orchestrator, repository: RepositoryName
) -> list[BranchName]:
    """Delete the leftovers in one repository, and return their names."""
    removal = remove_stagings(store, find_stagings(store, orchestrator, repository))
    for _, error in removal.failed:
        raise error
    return [staging.branch for staging in removal.removed]


def find_inputs_in_flight(orchestrator: Orchestrator) -> set[CommitId]:
    """Every commit that an unfinished workflow instance may still read.

    Raises where an instance does not tell: what is collected then might be one of its commits.
    """
    roots: set[CommitId] = set()
    for run_id in _find_unfinished(orchestrator):
        try:
            run = orchestrator.workflow(run_id)
        except NotFoundInOrchestratorError:
            continue  # it was removed since
        payloads = [run.input, run.output, *(task.input for task in run.tasks)]
        payloads += [task.output for task in run.tasks]
        for payload in payloads:
            reason = find_unreadable(payload)
            if reason is not None:
                raise OrchestratorError(
                    f"cannot tell which commits run {run_id} uses: {reason}",
                    hint=f"wait until it is over, or end it: perago cancel {run_id}",
                )
            roots |= find_refs(payload)
    return roots


def _find_unfinished(orchestrator: Orchestrator) -> set[WorkflowId]:
    # A listing is made of pages, and a run that ends meanwhile moves the others up, past the end of
    # a page. So until nothing new is found.
    found: set[WorkflowId] = set()
    while not found.issuperset(
        listed := orchestrator.workflow_ids(limit=_NO_LIMIT, unfinished=True)
    ):
        found.update(listed)
    return found


def _state_of(orchestrator: Orchestrator, branch: BranchName) -> StagingState:
    name = parse_staging_name(branch)
    if name is None:
        return StagingState.NO_ATTEMPT
    try:
        attempt = orchestrator.snapshot(name.task_id)
    except NotFoundInOrchestratorError:
        return StagingState.UNKNOWN
    return StagingState.OVER if attempt.status.is_terminal else StagingState.UNFINISHED

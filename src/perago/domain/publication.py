"""The publish fence: what may be done to the target branch, as a pure decision.

Invariant: a plan to move the target exists only while HEAD is the input ref, or a single-parent
child of it that is not known to be another task's publication. Everything else is a refusal.
Commit metadata can veto a plan; it can never permit one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from perago.domain.attempt import Attempt, LogicalTask
from perago.domain.ids import (
    BranchName,
    CommitId,
    ExecutionId,
    RepositoryName,
    TreeId,
    WorkflowId,
)

METADATA_PREFIX = "perago."
_WORKFLOW = "perago.workflow"
_REFERENCE = "perago.reference"
_ITERATION = "perago.iteration"
_TASK_ID = "perago.task_id"
_EXECUTION = "perago.execution"
_COUNT = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """An immutable commit as a store shows it.

    Equal trees have equal content; whether equal content always has the equal tree is a promise
    of some stores only.
    """

    id: CommitId
    parents: tuple[CommitId, ...]
    tree: TreeId
    message: str
    created_at: datetime
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedWorkspace:
    """A staging: always all three; nothing else identifies one."""

    repository: RepositoryName
    branch: BranchName
    commit: CommitId


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Squash-merge the staging branch: history becomes `input_ref -> published`."""

    staged: StagedWorkspace
    expected_head: CommitId


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Relocate the target to the staged commit: `input_ref -> staged`, the abandoned one gone."""

    staged: StagedWorkspace
    expected_head: CommitId


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Nothing changed and nothing is in the way: the target stays at the input ref."""

    head: CommitId


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocate:
    """Nothing changed, but an abandoned publication is visible: back to the input ref."""

    to: CommitId
    expected_head: CommitId


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """The target is in a state that this attempt cannot explain; nothing may move."""

    reason: str
    head: CommitId


PublicationPlan = Merge | Replace | Keep | Relocate | Refuse


def build_workspace_publication_plan(
    *,
    input_ref: CommitId,
    head: Commit,
    logical_task: LogicalTask,
    staged: StagedWorkspace | None,
    replace_unlabelled: bool = True,
) -> PublicationPlan:
    """Decide what to do with the target. `staged` is None when nothing changed."""
    if head.id == input_ref:
        if staged is None:
            return Keep(head=head.id)
        return Merge(staged=staged, expected_head=head.id)
    if head.parents != (input_ref,):
        return Refuse(reason="the branch moved on since the input ref was read", head=head.id)
    veto = _veto_replacement(head, logical_task, replace_unlabelled=replace_unlabelled)
    if veto is not None:
        return Refuse(reason=veto, head=head.id)
    if staged is None:
        return Relocate(to=input_ref, expected_head=head.id)
    return Replace(staged=staged, expected_head=head.id)


def _veto_replacement(
    head: Commit, logical_task: LogicalTask, *, replace_unlabelled: bool
) -> str | None:
    """Say why the child of the input ref is not an abandoned publication of ours."""
    if not any(key.startswith(METADATA_PREFIX) for key in head.metadata):
        if replace_unlabelled:
            return None
        return "its head carries no Perago metadata and replace_unlabelled is off"
    owner = read_logical_task(head.metadata)
    if owner is None:
        return "its head carries Perago metadata that names no task"
    if owner != logical_task:
        return (
            f"its head is the publication of another task: {owner.reference_name} "
            f"of workflow {owner.workflow_id}, iteration {owner.iteration}"
        )
    return None


def read_logical_task(metadata: Mapping[str, str]) -> LogicalTask | None:
    """The logical task that a commit's metadata names, or None when it names none whole."""
    workflow, reference = metadata.get(_WORKFLOW), metadata.get(_REFERENCE)
    iteration = metadata.get(_ITERATION, "")
    if not workflow or not reference or not _COUNT.fullmatch(iteration):
        return None
    return LogicalTask(
        workflow_id=WorkflowId(workflow), reference_name=reference, iteration=int(iteration)
    )


IMPORT_METADATA: Mapping[str, str] = {f"{METADATA_PREFIX}phase": "import"}
"""What a person's import says of itself: it is no attempt's, so it is never taken for an abandoned
publication and replaced."""


class PublicationPhase(StrEnum):
    """Which commit of a publication the metadata is on; for people who read a history."""

    TRY = "try"
    CONFIRM = "confirm"


def build_publication_metadata(
    *,
    phase: PublicationPhase,
    attempt: Attempt,
    execution_id: ExecutionId,
    input_ref: CommitId,
    staging_branch: BranchName,
    staging_commit: CommitId | None = None,
) -> dict[str, str]:
    """What a commit says of the attempt that made it: for people, and for the veto."""
    metadata = {
        "perago.phase": phase.value,
        "perago.task": attempt.task_name,
        _WORKFLOW: attempt.workflow_id,
        _REFERENCE: attempt.reference_name,
        _ITERATION: str(attempt.iteration),
        _TASK_ID: attempt.task_id,
        "perago.retry": str(attempt.retry_count),
        _EXECUTION: execution_id,
        "perago.staging_branch": staging_branch,
        "perago.expected_head": input_ref,
    }
    if staging_commit is not None:
        metadata["perago.staging_commit"] = staging_commit
    return metadata


def explain_unverified(
    *, published: Commit, input_ref: CommitId, staged_tree: TreeId
) -> str | None:
    """Say why a commit is not the publication that was asked for, or None when it is."""
    if published.parents != (input_ref,):
        shown = ", ".join(published.parents) or "none"
        return f"the published commit {published.id} has parents {shown}, not the input ref alone"
    if published.tree != staged_tree:
        return f"the published commit {published.id} holds other content than was staged"
    return None


def explain_foreign_publication(
    commit: Commit, *, input_ref: CommitId, attempt: Attempt, execution_id: ExecutionId
) -> str | None:
    """Say why a commit is not what this execution published on its input ref, or None if it is.

    It never permits a publication: that was made, or not, when somebody asks this.
    """
    if commit.parents != (input_ref,):
        return f"commit {commit.id} does not stand on the input ref {input_ref} alone"
    made_by = commit.metadata.get(_TASK_ID), commit.metadata.get(_EXECUTION)
    is_ours = read_logical_task(commit.metadata) == attempt.logical_task
    if not is_ours or made_by != (attempt.task_id, execution_id):
        return f"commit {commit.id} is not of execution {execution_id} of task {attempt.task_id}"
    return None


class Resolution(StrEnum):
    """What reading HEAD tells after an answer that could not be understood."""

    PUBLISHED = "published"
    NOT_PUBLISHED = "not published"
    SOMEONE_ELSES = "someone else's"


def resolve_unknown_outcome(
    *,
    head: Commit,
    expected_head: CommitId,
    input_ref: CommitId,
    staged_tree: TreeId,
    execution_id: ExecutionId,
) -> Resolution:
    """Judge a `Merge` or a `Replace` whose answer was ambiguous by HEAD, read once more.

    After a merge, HEAD is a new commit; after a replacement it is the staged one. Both carry the
    execution that made them. The call is never sent again. (A no-op `Relocate` makes no commit:
    HEAD is the input ref afterwards, or it is not.)
    """
    if head.id == expected_head:
        return Resolution.NOT_PUBLISHED
    verified = explain_unverified(published=head, input_ref=input_ref, staged_tree=staged_tree)
    if verified is None and head.metadata.get(_EXECUTION) == execution_id:
        return Resolution.PUBLISHED
    return Resolution.SOMEONE_ELSES

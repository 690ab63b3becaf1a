"""Looks up the commit that a completed attempt names, before the orchestrator is told of it.

What an executor says of its outcome passed through a process in which a body ran. So who reports a
COMPLETED for it asks the store first: one read, and none where nothing was published.
"""

from __future__ import annotations

from perago.domain.attempt import Attempt
from perago.domain.errors import NotFoundInStoreError
from perago.domain.ids import CommitId, ExecutionId
from perago.domain.outcome import Completed
from perago.domain.publication import explain_foreign_publication
from perago.domain.workspace import WorkspaceRef
from perago.ports import WorkspaceStore

_LONGEST_ID = 128


def explain_unconfirmed(
    attempt: Attempt,
    execution_id: ExecutionId,
    workspace: WorkspaceRef | None,
    outcome: Completed,
    *,
    store: WorkspaceStore,
) -> str | None:
    """Say why an outcome must not be reported, or None when it may be.

    `workspace` is the attempt's input, None for a task without one. The output names either the
    input ref or a commit of this execution on it. An error of the store is raised as it is: then
    nothing is known, and the caller asks again while there is time.
    """
    named = outcome.output.get("workspace")
    if workspace is None:
        return None if named is None else "it names a workspace, and its task has none"
    if not isinstance(named, dict):
        return "it names no workspace"
    for field, expected in (
        ("repository", workspace.repository),
        ("branch", workspace.branch),
        ("ref_type", "commit"),
    ):
        if named.get(field) != expected:
            return f"its workspace has another {field} than the input"
    ref = named.get("ref")
    if ref == workspace.ref:
        return None
    if not isinstance(ref, str) or not _may_be_commit(ref):
        return "its workspace names no commit"
    try:
        commit = store.read_commit(workspace.repository, CommitId(ref))
    except NotFoundInStoreError:
        return f"there is no commit {ref} in repository {workspace.repository!r}"
    return explain_foreign_publication(
        commit, input_ref=workspace.ref, attempt=attempt, execution_id=execution_id
    )


def _may_be_commit(text: str) -> bool:
    """Whether a store may be asked for it: an id of any store is plain letters and digits."""
    return text.isascii() and text.isalnum() and len(text) <= _LONGEST_ID

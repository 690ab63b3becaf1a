"""Moves a branch on a lakeFS server: read where it stands, act once.

The fence is soft: between the read and the server's act another client may move the branch. The
caller finds that out by reading the result; see docs/explanation/fences.md. Invariant: the time-out
that a caller gives covers the reads before the act too. The caller's lease was long enough when it
asked, so an act is never sent later than that lease allows.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakefs_sdk.models.merge import Merge

from perago.adapters.lakefs.answers import Asked
from perago.adapters.lakefs.api import LakeFSApi
from perago.adapters.lakefs.history import History
from perago.adapters.lakefs.retries import Deadline
from perago.domain.errors import (
    HeadMovedError,
    OutcomeUnknownError,
    StoreError,
)
from perago.domain.ids import BranchName, CommitId, RepositoryName
from perago.domain.publication import Commit, StagedWorkspace


class Publication:
    """Merges and relocations, each sent at most once."""

    def __init__(self, api: LakeFSApi, history: History) -> None:
        self._api = api
        self._history = history

    def merge(
        self,
        staged: StagedWorkspace,
        target: BranchName,
        *,
        expected_head: CommitId,
        message: str,
        metadata: Mapping[str, str],
        timeout_seconds: float,
    ) -> Commit:
        """Squash-merge a staged commit; the merge commit as the server keeps it."""
        repository, deadline = staged.repository, Deadline(timeout_seconds)
        history = self._history.within(deadline)
        history.commit(repository, staged.commit)
        _require_head(history, repository, staged.branch, staged.commit)
        _require_head(history, repository, target, expected_head)
        asked = Asked(
            what=f"merge {staged.branch!r} into {repository}/{target}",
            missing=f"no branch {target!r} or {staged.branch!r} in repository {repository!r}",
            changes=True,
        )
        merged = self._api.within(deadline).change(
            asked,
            timeout_seconds,
            self._api.refs.merge_into_branch,
            repository,
            # The commit, not the branch's name: what was checked is what is merged.
            staged.commit,
            target,
            Merge(
                message=message,
                metadata=dict(metadata),
                squash_merge=True,
                strategy=None,
                force=False,
                allow_empty=False,
            ),
        )
        return self._read_back(repository, CommitId(merged.reference))

    def _read_back(self, repository: RepositoryName, merged: CommitId) -> Commit:
        try:
            return self._history.commit(repository, merged)
        except StoreError as error:
            # Whatever is wrong with the read says nothing about the merge, which was answered.
            raise OutcomeUnknownError(
                f"merged as {merged}, but it could not be read back: {error.message}"
            ) from error

    def relocate(
        self,
        repository: RepositoryName,
        branch: BranchName,
        *,
        to: CommitId,
        expected_head: CommitId,
        timeout_seconds: float,
    ) -> None:
        """Hard-reset a branch that holds nothing uncommitted."""
        deadline = Deadline(timeout_seconds)
        api, history = self._api.within(deadline), self._history.within(deadline)
        history.commit(repository, to)
        _refuse_dirty(api, repository, branch)
        _require_head(history, repository, branch, expected_head)
        asked = Asked(
            what=f"reset {repository}/{branch} to {to}",
            missing=f"no branch {branch!r} in repository {repository!r}",
            changes=True,
        )
        call = api.experimental.hard_reset_branch
        api.act(asked, timeout_seconds, call, repository, branch, to)


def _refuse_dirty(api: LakeFSApi, repository: RepositoryName, branch: BranchName) -> None:
    """A merge into a branch with uncommitted changes is refused by the server; a reset is not,
    and would drop them.
    """
    asked = Asked(
        what=f"look for uncommitted changes on {repository}/{branch}",
        missing=f"no branch {branch!r} in repository {repository!r}",
    )
    call = api.branches.diff_branch
    found = api.read(asked, call, repository, branch, amount=1)
    if found.results:
        raise StoreError(
            f"could not reset {repository}/{branch}: it has uncommitted changes, such as "
            f"{found.results[0].path!r}",
            hint="somebody wrote to the branch without committing: commit or reset that by "
            "hand, then start again",
        )


def _require_head(
    history: History, repository: RepositoryName, branch: BranchName, expected: CommitId
) -> None:
    actual = history.head_id(repository, branch)
    if actual != expected:
        raise HeadMovedError(repository=repository, branch=branch, expected=expected, actual=actual)

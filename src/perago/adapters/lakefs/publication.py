"""Moves a branch on a lakeFS server: read where it stands, act once.

The fence is soft: between the read and the server's act another client may move the branch. After
a merge the caller finds that out by reading the result; after a reset nobody can, for it takes what
it does not see off the branch (docs/explanation/fences.md). Invariant: the caller's last check
comes after all other reads, however long they took. Before a reset the branch is read once more,
and the clock is the last thing that is looked at before the act.
"""

from __future__ import annotations

from collections.abc import Mapping

from perago.adapters.lakefs import calls
from perago.adapters.lakefs.answers import Asked
from perago.adapters.lakefs.api import LakeFSApi
from perago.adapters.lakefs.history import History
from perago.adapters.lakefs.values import read_part, to_change, to_reference
from perago.domain.errors import HeadMovedError, OutcomeUnknownError, StoreError
from perago.domain.ids import BranchName, CommitId, RepositoryName
from perago.domain.publication import Commit, StagedWorkspace
from perago.ports import LastCheck, always_allowed


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
        last_check: LastCheck = always_allowed,
    ) -> Commit:
        """Squash-merge a staged commit; the merge commit as the server keeps it."""
        repository = staged.repository
        self._history.commit(repository, staged.commit)
        self._require_head(repository, staged.branch, staged.commit)
        self._require_head(repository, target, expected_head)
        asked = Asked(
            what=f"merge {staged.branch!r} into {repository}/{target}",
            missing=f"no branch {target!r} or {staged.branch!r} in repository {repository!r}",
            changes=True,
        )
        # The commit, not the branch's name: what was checked is what is merged.
        call = calls.merge_into_branch(
            repository, staged.commit, target, message=message, metadata=metadata
        )
        # No further look at the target: what lands there now is found in the merge's parent.
        last_check()()
        merged = self._api.change(asked, timeout_seconds, call)
        return self._read_back(repository, read_part(asked, to_reference, merged))

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
        last_check: LastCheck = always_allowed,
    ) -> None:
        """Hard-reset a branch that holds nothing uncommitted."""
        self._history.commit(repository, to)
        self._require_untouched(repository, branch, expected_head)
        asked = Asked(
            what=f"reset {repository}/{branch} to {to}",
            missing=f"no branch {branch!r} in repository {repository!r}",
            changes=True,
        )
        assert_in_time = last_check()
        # The check asks another server: what came onto the branch meanwhile would be lost.
        self._require_untouched(repository, branch, expected_head)
        assert_in_time()
        self._api.act(asked, timeout_seconds, calls.hard_reset_branch(repository, branch, to))

    def _require_untouched(
        self, repository: RepositoryName, branch: BranchName, expected: CommitId
    ) -> None:
        """Refuse a branch that moved or holds uncommitted changes.

        HEAD is read last, so that a commit of changes that were not there yet is seen.
        """
        self._refuse_dirty(repository, branch)
        self._require_head(repository, branch, expected)

    def _refuse_dirty(self, repository: RepositoryName, branch: BranchName) -> None:
        """A merge into a branch with uncommitted changes is refused by the server; a reset is not,
        and would drop them.
        """
        asked = Asked(
            what=f"look for uncommitted changes on {repository}/{branch}",
            missing=f"no branch {branch!r} in repository {repository!r}",
        )
        found = self._api.read_first(asked, calls.diff_branch(repository, branch))
        if found is not None:
            path = read_part(asked, to_change, found).path
            raise StoreError(
                f"could not reset {repository}/{branch}: it has uncommitted changes, such as "
                f"{path!r}",
                hint="somebody wrote to the branch without committing: commit or reset that by "
                "hand, then start again",
            )

    def _require_head(
        self, repository: RepositoryName, branch: BranchName, expected: CommitId
    ) -> None:
        actual = self._history.head_id(repository, branch)
        if actual != expected:
            raise HeadMovedError(
                repository=repository, branch=branch, expected=expected, actual=actual
            )

"""What a staging branch shows before it is committed, and the commit of it.

Invariant: only branches that nobody else uses are changed here, so a lost answer can be settled by
looking.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from perago.adapters.lakefs import calls
from perago.adapters.lakefs.answers import Asked
from perago.adapters.lakefs.api import LakeFSApi
from perago.adapters.lakefs.deletes import Deletes
from perago.adapters.lakefs.history import History
from perago.adapters.lakefs.names import no_branch, no_commit
from perago.adapters.lakefs.values import read_each, read_part, to_change, to_commit
from perago.adapters.patience import Patience
from perago.domain.errors import HeadMovedError, NothingChangedError, OutcomeUnknownError
from perago.domain.ids import BranchName, CommitId, ObjectPath, RepositoryName
from perago.domain.publication import Commit
from perago.domain.staged_changes import ObjectChange

COMMIT_PATIENCE = 10
"""A commit writes the whole tree's index, so it may take this many times an ordinary call."""


class StagingArea:
    """The uncommitted side of branches."""

    def __init__(
        self, api: LakeFSApi, history: History, patience: Patience, timeout_seconds: float
    ) -> None:
        self._api = api
        self._history = history
        self._patience = patience
        self._timeout = timeout_seconds

    def changes(self, repository: RepositoryName, branch: BranchName) -> Iterator[ObjectChange]:
        """What the branch shows and its head does not, and the other way round."""
        asked = Asked(
            what=f"list what changed on {repository}/{branch}",
            missing=no_branch(repository, branch).message,
        )
        found = self._api.read_pages(asked, calls.diff_branch(repository, branch))
        return read_each(asked, to_change, found)

    def changes_between(
        self, repository: RepositoryName, base: CommitId, commit: CommitId
    ) -> Iterator[ObjectChange]:
        """The difference of two commits, each of which must be there."""
        for one in (base, commit):
            self._history.commit(repository, one)
        asked = Asked(
            what=f"compare commits {base} and {commit} of {repository!r}",
            missing=no_commit(repository, commit).message,
        )
        found = self._api.read_pages(asked, calls.diff_refs(repository, base, commit))
        return read_each(asked, to_change, found)

    def remove(
        self, repository: RepositoryName, branch: BranchName, paths: Collection[ObjectPath]
    ) -> None:
        """Delete objects on a branch, those that are there."""
        Deletes(self._api, self._patience, repository, branch).run(sorted(paths))

    def commit(
        self,
        repository: RepositoryName,
        branch: BranchName,
        *,
        expected_head: CommitId,
        message: str,
        metadata: Mapping[str, str],
    ) -> Commit:
        """Commit what the branch shows, on its expected head and nothing else."""
        head = self._history.head_id(repository, branch)
        if head != expected_head:
            raise _moved(repository, branch, expected_head, head)
        if next(self.changes(repository, branch), None) is None:
            raise NothingChangedError(f"there is nothing to commit on {repository}/{branch}")
        return self.send_commit(
            repository, branch, head=expected_head, message=message, metadata=metadata
        )

    def send_commit(
        self,
        repository: RepositoryName,
        branch: BranchName,
        *,
        head: CommitId,
        message: str,
        metadata: Mapping[str, str],
    ) -> Commit:
        """The same for who has just looked at the branch."""
        made = self._send(repository, branch, head, message, metadata)
        if made.parents != (head,):
            raise _moved(repository, branch, head, made.id)
        return made

    def _send(
        self,
        repository: RepositoryName,
        branch: BranchName,
        head: CommitId,
        message: str,
        metadata: Mapping[str, str],
    ) -> Commit:
        asked = Asked(
            what=f"commit to {repository}/{branch}",
            missing=no_branch(repository, branch).message,
            changes=True,
        )
        call = calls.commit(repository, branch, message=message, metadata=metadata)
        try:
            made = self._api.change(asked, self._timeout * COMMIT_PATIENCE, call)
            return read_part(asked, to_commit, made)
        except OutcomeUnknownError:
            # Nobody else commits to this branch, so a commit on `head` is the one that was sent.
            now = self._history.head(repository, branch)
            if now.parents != (head,):
                raise
            return now


def _moved(
    repository: RepositoryName, branch: BranchName, expected: CommitId, actual: CommitId
) -> HeadMovedError:
    return HeadMovedError(repository=repository, branch=branch, expected=expected, actual=actual)

"""Commits local files and deletes to a branch, all or nothing for its readers.

A lakeFS branch shows uncommitted objects to all who read it by name. Therefore objects are only
ever written to branches of Perago's own: a staging is one, and for any other branch a hidden one
is made, committed to, merged, and removed.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from lakefs_sdk.models.commit_creation import CommitCreation

from perago.adapters.lakefs.answers import Asked
from perago.adapters.lakefs.api import LakeFSApi
from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.lakefs.data_plane import DataPlane
from perago.adapters.lakefs.deletes import Deletes
from perago.adapters.lakefs.history import History, to_commit
from perago.adapters.lakefs.publication import Publication
from perago.adapters.lakefs.upload import upload_files
from perago.domain.errors import (
    HeadMovedError,
    NotFoundInStoreError,
    NothingChangedError,
    OutcomeUnknownError,
    PeragoError,
    StoreError,
)
from perago.domain.ids import BranchName, CommitId, ObjectPath, RepositoryName
from perago.domain.publication import Commit, StagedWorkspace
from perago.domain.staging import STAGING_PREFIX
from perago.ports import LocalFile, OnTransfer

_log = logging.getLogger(__name__)
_COMMIT_PATIENCE = 10
"""A commit writes the whole tree's index, so it may take this many times an ordinary call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What the next commit differs in, and what it says of itself."""

    writes: Mapping[ObjectPath, LocalFile]
    deletes: Collection[ObjectPath]
    message: str
    metadata: Mapping[str, str]

    def __post_init__(self) -> None:
        both = self.writes.keys() & set(self.deletes)
        if both:
            raise StoreError(f"{min(both)!r} is both written and deleted")
        if not self.writes and not self.deletes:
            raise NothingChangedError("there is nothing to commit")


class ChangeWriter:
    """Makes commits."""

    def __init__(
        self,
        api: LakeFSApi,
        history: History,
        publication: Publication,
        data: DataPlane,
        connection: LakeFSConnection,
    ) -> None:
        self._api = api
        self._history = history
        self._publication = publication
        self._data = data
        self._concurrency = connection.concurrency
        self._timeout = connection.timeout_seconds

    def commit(
        self,
        repository: RepositoryName,
        branch: BranchName,
        changes: Changes,
        on_transfer: OnTransfer,
    ) -> Commit:
        """Advance a branch by one commit."""
        head = self._history.head_id(repository, branch)
        if branch.startswith(STAGING_PREFIX):
            return self._commit_to(repository, branch, head, changes, on_transfer)
        with self._private_branch(repository, head) as private:
            made = self._commit_to(repository, private, head, changes, on_transfer)
            return self._publication.merge(
                StagedWorkspace(repository=repository, branch=private, commit=made.id),
                branch,
                expected_head=head,
                message=changes.message,
                metadata=changes.metadata,
                timeout_seconds=self._timeout * _COMMIT_PATIENCE,
            )

    @contextmanager
    def _private_branch(self, repository: RepositoryName, head: CommitId) -> Iterator[BranchName]:
        private = BranchName(f"{STAGING_PREFIX}import-{uuid.uuid4().hex}")
        self._history.create_private_branch(repository, private, head)
        try:
            yield private
        finally:
            try:
                self._history.delete_branch(repository, private)
            except PeragoError:
                _log.warning("failed to clean staging workspace %s", private, exc_info=True)

    def _commit_to(
        self,
        repository: RepositoryName,
        branch: BranchName,
        head: CommitId,
        changes: Changes,
        on_transfer: OnTransfer,
    ) -> Commit:
        """Fill a private branch that stands at `head`, and commit it."""
        upload_files(
            self._data,
            repository,
            branch,
            changes.writes,
            concurrency=self._concurrency,
            on_transfer=on_transfer,
        )
        deletes = Deletes(self._api, self._data.patience, repository, branch)
        deletes.run(sorted(changes.deletes))
        self._check_uncommitted(repository, branch, changes)
        made = self._send_commit(repository, branch, head, changes)
        if made.parents != (head,):
            raise HeadMovedError(
                repository=repository, branch=branch, expected=head, actual=made.id
            )
        return made

    def _check_uncommitted(
        self, repository: RepositoryName, branch: BranchName, changes: Changes
    ) -> None:
        """See that the branch now differs in nothing but what was asked for.

        The server does not mind a delete of what is not there, and commits whatever anybody wrote
        to the branch.
        """
        asked = Asked(
            what=f"list what changed on {repository}/{branch}",
            missing=f"no branch {branch!r} in repository {repository!r}",
        )
        not_deleted = set(changes.deletes)
        for found in self._history.pages(asked, self._api.branches.diff_branch, repository, branch):
            path = ObjectPath(found.path)
            if found.type == "removed" and path in not_deleted:
                not_deleted.remove(path)
            elif path not in changes.writes:
                raise StoreError(
                    f"somebody else wrote {path!r} to {repository}/{branch}",
                    hint="staging branches are Perago's own: keep other writers away from them",
                )
        if not_deleted:
            raise NotFoundInStoreError(f"no object {min(not_deleted)!r} to delete in {branch!r}")

    def _send_commit(
        self, repository: RepositoryName, branch: BranchName, head: CommitId, changes: Changes
    ) -> Commit:
        asked = Asked(
            what=f"commit to {repository}/{branch}",
            missing=f"no branch {branch!r} in repository {repository!r}",
            changes=True,
        )
        creation = CommitCreation(
            message=changes.message, metadata=dict(changes.metadata), date=None, allow_empty=False
        )
        try:
            made = self._api.change(
                asked,
                self._timeout * _COMMIT_PATIENCE,
                self._api.commits.commit,
                repository,
                branch,
                creation,
            )
        except OutcomeUnknownError:
            # Nobody else commits to this branch, so a commit on `head` is the one that was sent.
            now = self._history.head(repository, branch)
            if now.parents != (head,):
                raise
            return now
        return to_commit(made)

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

from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.lakefs.data_plane import DataPlane
from perago.adapters.lakefs.history import History
from perago.adapters.lakefs.publication import Publication
from perago.adapters.lakefs.staging_area import COMMIT_PATIENCE, StagingArea
from perago.adapters.lakefs.upload import upload_files
from perago.domain.errors import (
    NotFoundInStoreError,
    NothingChangedError,
    PeragoError,
    StoreError,
)
from perago.domain.ids import BranchName, CommitId, ObjectPath, RepositoryName
from perago.domain.publication import Commit, StagedWorkspace
from perago.domain.staged_changes import ChangeKind
from perago.domain.staging import STAGING_PREFIX
from perago.ports import LocalFile, OnTransfer

_log = logging.getLogger(__name__)


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
        history: History,
        area: StagingArea,
        publication: Publication,
        data: DataPlane,
        connection: LakeFSConnection,
    ) -> None:
        self._history = history
        self._area = area
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
                timeout_seconds=self._timeout * COMMIT_PATIENCE,
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
        self._area.remove(repository, branch, changes.deletes)
        self._check_uncommitted(repository, branch, changes)
        return self._area.send_commit(
            repository,
            branch,
            head=head,
            message=changes.message,
            metadata=changes.metadata,
        )

    def _check_uncommitted(
        self, repository: RepositoryName, branch: BranchName, changes: Changes
    ) -> None:
        """See that the branch now differs in nothing but what was asked for.

        The server does not mind a delete of what is not there, and commits whatever anybody wrote
        to the branch.
        """
        not_deleted = set(changes.deletes)
        for found in self._area.changes(repository, branch):
            if found.kind is ChangeKind.REMOVED and found.path in not_deleted:
                not_deleted.remove(found.path)
            elif found.path not in changes.writes:
                raise StoreError(
                    f"somebody else wrote {found.path!r} to {repository}/{branch}",
                    hint="staging branches are Perago's own: keep other writers away from them",
                )
        if not_deleted:
            raise NotFoundInStoreError(f"no object {min(not_deleted)!r} to delete in {branch!r}")

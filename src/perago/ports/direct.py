"""Stores whose staging branches a body can write to by itself, before anything is committed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from perago.domain.ids import BranchName, CommitId, ObjectPath, RepositoryName
from perago.domain.publication import Commit
from perago.domain.staged_changes import ObjectChange
from perago.domain.workspace import ObjectEntry
from perago.ports.store import WorkspaceStore


class DirectStore(WorkspaceStore, Protocol):
    """A workspace store with an open staging area per branch.

    What others write to a branch through the store's data plane is there for all readers of that
    branch, in no commit, until `commit_staged`. Only staging branches are changed here: nobody else
    reads those. All listings come in the order of the paths' UTF-8 bytes.
    """

    def list_staged(
        self, repository: RepositoryName, branch: BranchName, prefix: str = ""
    ) -> Iterator[ObjectEntry]:
        """The objects that a branch shows now, committed or not, below `prefix`."""
        ...

    def staged_changes(
        self, repository: RepositoryName, branch: BranchName
    ) -> Iterator[ObjectChange]:
        """What differs between a branch as it shows now and its head."""
        ...

    def changes_between(
        self, repository: RepositoryName, base: CommitId, commit: CommitId
    ) -> Iterator[ObjectChange]:
        """What differs between two commits, seen from `base`."""
        ...

    def remove_staged(
        self, repository: RepositoryName, branch: BranchName, paths: Collection[ObjectPath]
    ) -> None:
        """Have the branch show these objects no more; one that is not there is no matter."""
        ...

    def commit_staged(
        self,
        repository: RepositoryName,
        branch: BranchName,
        *,
        expected_head: CommitId,
        message: str,
        metadata: Mapping[str, str],
    ) -> Commit:
        """Commit all that the branch shows; the commit's only parent is `expected_head`.

        A branch that stands elsewhere, before or after, raises `HeadMovedError`; one that shows
        nothing new `NothingChangedError`.
        """
        ...

"""Direct stores that break the contract of staging areas in one way each.

Not collected by itself: see `test_store_contract_bites.py`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from perago.domain.errors import HeadMovedError, NothingChangedError
from perago.domain.ids import BranchName, CommitId, Digest, ObjectPath, RepositoryName
from perago.domain.publication import Commit
from perago.domain.staged_changes import ChangeKind, ObjectChange
from perago.testing.clock import FakeClock
from perago.testing.memory_direct_store import MemoryDirectStore
from perago.testing.store_contract import DirectStoreContract, StoreBench


class OnMemory(DirectStoreContract):
    kind: ClassVar[type[MemoryDirectStore]] = MemoryDirectStore

    @pytest.fixture
    def bench(self, tmp_path: Path) -> StoreBench:
        store = self.kind(FakeClock())
        return StoreBench(store=store, second=store, directory=tmp_path)

    def put(
        self,
        bench: StoreBench,
        repository: RepositoryName,
        branch: BranchName,
        path: str,
        content: bytes,
    ) -> None:
        assert isinstance(bench.store, MemoryDirectStore)
        bench.store.put(repository, branch, ObjectPath(path), content)


class TestSoundDirect(OnMemory):
    """Nothing broken: the control."""


class OverlooksTheRemoved(MemoryDirectStore):
    def staged_changes(
        self, repository: RepositoryName, branch: BranchName
    ) -> Iterator[ObjectChange]:
        changes = super().staged_changes(repository, branch)
        return (one for one in changes if one.kind is not ChangeKind.REMOVED)


class TestOverlooksTheRemoved(OnMemory):
    kind: ClassVar[type[MemoryDirectStore]] = OverlooksTheRemoved


class CommitsAnywhere(MemoryDirectStore):
    """Commits on whatever head the branch has."""

    def commit_staged(
        self,
        repository: RepositoryName,
        branch: BranchName,
        *,
        expected_head: CommitId,
        message: str,
        metadata: Mapping[str, str],
    ) -> Commit:
        try:
            head = expected_head
            return super().commit_staged(
                repository, branch, expected_head=head, message=message, metadata=metadata
            )
        except HeadMovedError as moved:
            return super().commit_staged(
                repository, branch, expected_head=moved.actual, message=message, metadata=metadata
            )


class TestCommitsAnywhere(OnMemory):
    kind: ClassVar[type[MemoryDirectStore]] = CommitsAnywhere


class CommitsNothing(MemoryDirectStore):
    """Makes an empty commit."""

    def commit_staged(
        self,
        repository: RepositoryName,
        branch: BranchName,
        *,
        expected_head: CommitId,
        message: str,
        metadata: Mapping[str, str],
    ) -> Commit:
        try:
            return super().commit_staged(
                repository, branch, expected_head=expected_head, message=message, metadata=metadata
            )
        except NothingChangedError:
            return self.head(repository, branch)


class TestCommitsNothing(OnMemory):
    kind: ClassVar[type[MemoryDirectStore]] = CommitsNothing


class OneAreaForAll(MemoryDirectStore):
    """What is written to one branch shows on all."""

    def _area(
        self, repository: RepositoryName, branch: BranchName
    ) -> dict[ObjectPath, Digest | None]:
        del branch
        return self._uncommitted.setdefault((repository, BranchName("all")), {})


class TestOneAreaForAll(OnMemory):
    kind: ClassVar[type[MemoryDirectStore]] = OneAreaForAll


class ComparesBackwards(MemoryDirectStore):
    def changes_between(
        self, repository: RepositoryName, base: CommitId, commit: CommitId
    ) -> Iterator[ObjectChange]:
        return super().changes_between(repository, commit, base)


class TestComparesBackwards(OnMemory):
    kind: ClassVar[type[MemoryDirectStore]] = ComparesBackwards


class MarkersDoNotShow(MemoryDirectStore):
    def staged_changes(
        self, repository: RepositoryName, branch: BranchName
    ) -> Iterator[ObjectChange]:
        changes = super().staged_changes(repository, branch)
        return (one for one in changes if not one.path.endswith("/"))


class TestMarkersDoNotShow(OnMemory):
    kind: ClassVar[type[MemoryDirectStore]] = MarkersDoNotShow

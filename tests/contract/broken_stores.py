"""Stores that break the contract in one way each, and a soft one that keeps it.

Not collected by itself: `test_store_contract_bites.py` runs chosen tests of it in a process of
their own and looks at which fail.
"""

import os
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from perago.domain.errors import StoreError
from perago.domain.ids import (
    BranchName,
    CommitId,
    Digest,
    ObjectPath,
    RelativePath,
    RepositoryName,
    TreeId,
)
from perago.domain.publication import Commit, StagedWorkspace
from perago.domain.workspace import ObjectEntry
from perago.ports import Branch, Fencing, LastCheck, LocalFile, OnTransfer, always_allowed
from perago.testing.clock import FakeClock
from perago.testing.memory_store import MemoryWorkspaceStore
from perago.testing.store_contract import (
    CanonicalTreeContract,
    CorruptionContract,
    StoreBench,
    WorkspaceStoreContract,
)

_GAP_SECONDS = 0.003
"""Long enough for another thread to step between a check and an act."""


class OnMemory(WorkspaceStoreContract, CanonicalTreeContract, CorruptionContract):
    kind: ClassVar[type[MemoryWorkspaceStore]] = MemoryWorkspaceStore

    @pytest.fixture
    def bench(self, tmp_path: Path) -> StoreBench:
        store = self.kind(FakeClock())
        return StoreBench(store=store, second=store, directory=tmp_path)

    def corrupt(
        self, bench: StoreBench, repository: RepositoryName, commit: CommitId, path: ObjectPath
    ) -> None:
        store = bench.store
        assert isinstance(store, MemoryWorkspaceStore)
        (entry,) = store.list_objects(repository, commit, path)
        content = store._contents[Digest(entry.checksum)]
        store._contents[Digest(entry.checksum)] = bytes([content[0] ^ 1]) + content[1:]


class TestSound(OnMemory):
    """Nothing broken: the control."""


class CheckThenAct(MemoryWorkspaceStore):
    """Looks at the head, then moves it: two racing publications both succeed."""

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
        found = self._repository(staged.repository)
        found.require_unmoved(target, expected_head)
        last_check()()
        time.sleep(_GAP_SECONDS)
        with self._lock:
            tree = found.commit(staged.commit).tree
            commit = self._commit(found, tree, (expected_head,), message, metadata)
            found.move(found.branch(target), commit.id)
            return commit

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
        found = self._repository(repository)
        found.commit(to)
        found.require_unmoved(branch, expected_head)
        last_check()()
        time.sleep(_GAP_SECONDS)
        with self._lock:
            found.move(found.branch(branch), to)


class TestCheckThenAct(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = CheckThenAct


class MergeIgnoresExpectedHead(MemoryWorkspaceStore):
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
        with self._lock:
            return super().merge(
                staged,
                target,
                expected_head=self.head(staged.repository, target).id,
                message=message,
                metadata=metadata,
                timeout_seconds=timeout_seconds,
                last_check=last_check,
            )


class TestMergeIgnoresExpectedHead(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = MergeIgnoresExpectedHead


class RelocateIgnoresExpectedHead(MemoryWorkspaceStore):
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
        with self._lock:
            super().relocate(
                repository,
                branch,
                to=to,
                expected_head=self.head(repository, branch).id,
                timeout_seconds=timeout_seconds,
                last_check=last_check,
            )


class TestRelocateIgnoresExpectedHead(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = RelocateIgnoresExpectedHead


class MergeKeepsTwoParents(MemoryWorkspaceStore):
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
        with self._lock:
            found = self._repository(staged.repository)
            branch = found.require_unmoved(target, expected_head)
            tree = found.commit(staged.commit).tree
            parents = (expected_head, staged.commit)
            commit = self._commit(found, tree, parents, message, metadata)
            found.move(branch, commit.id)
            return commit


class TestMergeKeepsTwoParents(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = MergeKeepsTwoParents


class BranchesAreOverwritten(MemoryWorkspaceStore):
    def create_branch(
        self,
        repository: RepositoryName,
        branch: BranchName,
        source: CommitId,
        *,
        hidden: bool = False,
    ) -> None:
        with self._lock:
            self._repository(repository).branches.pop(branch, None)
            super().create_branch(repository, branch, source, hidden=hidden)


class TestBranchesAreOverwritten(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = BranchesAreOverwritten


class BranchCreationIsNotAtomic(MemoryWorkspaceStore):
    def create_branch(
        self,
        repository: RepositoryName,
        branch: BranchName,
        source: CommitId,
        *,
        hidden: bool = False,
    ) -> None:
        found = self._repository(repository)
        if branch in found.branches:
            super().create_branch(repository, branch, source, hidden=hidden)
        time.sleep(_GAP_SECONDS)
        with self._lock:
            found.branches.pop(branch, None)
            super().create_branch(repository, branch, source, hidden=hidden)


class TestBranchCreationIsNotAtomic(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = BranchCreationIsNotAtomic


class DeletingTakesCommitsAlong(MemoryWorkspaceStore):
    def delete_branch(self, repository: RepositoryName, branch: BranchName) -> None:
        head = self.head(repository, branch).id
        super().delete_branch(repository, branch)
        del self._repository(repository).commits[head]


class TestDeletingTakesCommitsAlong(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = DeletingTakesCommitsAlong


class HiddenBranchesShow(MemoryWorkspaceStore):
    def branches(self, repository: RepositoryName, *, hidden: bool = False) -> list[Branch]:
        return super().branches(repository, hidden=True)


class TestHiddenBranchesShow(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = HiddenBranchesShow


class CheckoutHardLinks(MemoryWorkspaceStore):
    """Writes each content once and links it from then on."""

    def checkout(
        self,
        repository: RepositoryName,
        commit: CommitId,
        files: Mapping[RelativePath, ObjectEntry],
        directory: Path,
        on_transfer: OnTransfer,
    ) -> dict[RelativePath, Digest]:
        written = super().checkout(repository, commit, files, directory, on_transfer)
        for path, digest in written.items():
            pool = directory.parent / f"pool-{digest}"
            if not pool.exists():
                os.link(directory / path, pool)
            (directory / path).unlink()
            os.link(pool, directory / path)
        return written


class TestCheckoutHardLinks(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = CheckoutHardLinks


class CheckoutWritesOver(MemoryWorkspaceStore):
    """Replaces what has the name of a file, as it once did."""

    def checkout(
        self,
        repository: RepositoryName,
        commit: CommitId,
        files: Mapping[RelativePath, ObjectEntry],
        directory: Path,
        on_transfer: OnTransfer,
    ) -> dict[RelativePath, Digest]:
        for path in files:
            (directory / path).unlink(missing_ok=True)
        return super().checkout(repository, commit, files, directory, on_transfer)


class TestCheckoutWritesOver(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = CheckoutWritesOver


class RoomAtAnyPrice(MemoryWorkspaceStore):
    def make_room(self, directory: Path, needed: int) -> None:
        if needed and directory.exists():
            for path in directory.iterdir():
                path.unlink()


class TestRoomAtAnyPrice(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = RoomAtAnyPrice


class CheckoutTrustsItsContent(MemoryWorkspaceStore):
    def _content(self, repository: RepositoryName, commit: CommitId, path: ObjectPath) -> bytes:
        return self._contents[self._objects(repository, commit)[path]]


class TestCheckoutTrustsItsContent(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = CheckoutTrustsItsContent


class ListsInUtf16Order(MemoryWorkspaceStore):
    def list_objects(
        self, repository: RepositoryName, commit: CommitId, prefix: str = ""
    ) -> Iterator[ObjectEntry]:
        entries = super().list_objects(repository, commit, prefix)
        return iter(sorted(entries, key=lambda entry: entry.path.encode("utf-16-be")))


class TestListsInUtf16Order(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = ListsInUtf16Order


class PrefixIsADirectory(MemoryWorkspaceStore):
    def list_objects(
        self, repository: RepositoryName, commit: CommitId, prefix: str = ""
    ) -> Iterator[ObjectEntry]:
        directory = prefix if prefix.endswith("/") or not prefix else prefix + "/"
        return super().list_objects(repository, commit, directory)


class TestPrefixIsADirectory(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = PrefixIsADirectory


class PathsAreNormalised(MemoryWorkspaceStore):
    def commit_changes(
        self,
        repository: RepositoryName,
        branch: BranchName,
        *,
        writes: Mapping[ObjectPath, LocalFile],
        deletes: Collection[ObjectPath],
        message: str,
        metadata: Mapping[str, str],
        on_transfer: OnTransfer,
    ) -> Commit:
        return super().commit_changes(
            repository,
            branch,
            writes={ObjectPath(os.path.normpath(path)): file for path, file in writes.items()},
            deletes=[ObjectPath(os.path.normpath(path)) for path in deletes],
            message=message,
            metadata=metadata,
            on_transfer=on_transfer,
        )


class TestPathsAreNormalised(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = PathsAreNormalised


class CommitDropsTheUntouched(MemoryWorkspaceStore):
    def _tree(self, objects: Mapping[ObjectPath, Digest]) -> TreeId:
        return super()._tree(dict(list(objects.items())[-1:]))


class TestCommitDropsTheUntouched(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = CommitDropsTheUntouched


class TreesDependOnHistory(MemoryWorkspaceStore):
    def _tree(self, objects: Mapping[ObjectPath, Digest]) -> TreeId:
        tree = TreeId(f"{super()._tree(objects)}-{list(objects)}")
        self._trees[tree] = objects
        return tree


class TestTreesDependOnHistory(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = TreesDependOnHistory


class CommitTrustsTheScan(MemoryWorkspaceStore):
    """Skips the check of a file whose digest it already has."""

    def commit_changes(
        self,
        repository: RepositoryName,
        branch: BranchName,
        *,
        writes: Mapping[ObjectPath, LocalFile],
        deletes: Collection[ObjectPath],
        message: str,
        metadata: Mapping[str, str],
        on_transfer: OnTransfer,
    ) -> Commit:
        for file in writes.values():
            if file.digest in self._contents:
                file.path.write_bytes(self._contents[file.digest])
        return super().commit_changes(
            repository,
            branch,
            writes=writes,
            deletes=deletes,
            message=message,
            metadata=metadata,
            on_transfer=on_transfer,
        )


class TestCommitTrustsTheScan(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = CommitTrustsTheScan


class DeletesWhatIsNotThere(MemoryWorkspaceStore):
    def commit_changes(
        self,
        repository: RepositoryName,
        branch: BranchName,
        *,
        writes: Mapping[ObjectPath, LocalFile],
        deletes: Collection[ObjectPath],
        message: str,
        metadata: Mapping[str, str],
        on_transfer: OnTransfer,
    ) -> Commit:
        there = self._objects(repository, self.head(repository, branch).id)
        return super().commit_changes(
            repository,
            branch,
            writes=writes,
            deletes=[path for path in deletes if path in there],
            message=message,
            metadata=metadata,
            on_transfer=on_transfer,
        )


class TestDeletesWhatIsNotThere(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = DeletesWhatIsNotThere


class ReadsWhatIsNotThere(MemoryWorkspaceStore):
    """Answers an unknown object with an empty one."""

    def _content(self, repository: RepositoryName, commit: CommitId, path: ObjectPath) -> bytes:
        if path not in self._objects(repository, commit):
            return b""
        return super()._content(repository, commit, path)


class TestReadsWhatIsNotThere(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = ReadsWhatIsNotThere


class SoftStore(CheckThenAct):
    """Keeps the soft form: what it returns is what really became of the branch."""

    @property
    def fencing(self) -> Fencing:
        return Fencing.SOFT

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
        found = self._repository(staged.repository)
        source = found.commit(staged.commit)
        found.branch(staged.branch)
        found.require_unmoved(target, expected_head)
        if source.tree == found.commit(expected_head).tree:
            raise StoreError("there is nothing to merge")
        last_check()()
        time.sleep(_GAP_SECONDS)
        with self._lock:
            branch = found.branch(target)
            commit = self._commit(found, source.tree, (branch.head,), message, metadata)
            found.move(branch, commit.id)
            return commit

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
        found = self._repository(repository)
        found.commit(to)
        found.require_unmoved(branch, expected_head)
        assert_in_time = last_check()
        found.require_unmoved(branch, expected_head)
        assert_in_time()
        time.sleep(_GAP_SECONDS)
        with self._lock:
            found.move(found.branch(branch), to)


class TestSoftStore(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = SoftStore


class NobodyIsAsked(MemoryWorkspaceStore):
    """Moves branches without the last check."""

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
        return super().merge(
            staged,
            target,
            expected_head=expected_head,
            message=message,
            metadata=metadata,
            timeout_seconds=timeout_seconds,
        )

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
        super().relocate(
            repository,
            branch,
            to=to,
            expected_head=expected_head,
            timeout_seconds=timeout_seconds,
        )


class TestNobodyIsAsked(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = NobodyIsAsked


class NobodyLooksAtTheClock(MemoryWorkspaceStore):
    """Asks, and moves branches however long the answer took."""

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
        last_check()
        return super().merge(
            staged,
            target,
            expected_head=expected_head,
            message=message,
            metadata=metadata,
            timeout_seconds=timeout_seconds,
        )

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
        last_check()
        super().relocate(
            repository,
            branch,
            to=to,
            expected_head=expected_head,
            timeout_seconds=timeout_seconds,
        )


class TestNobodyLooksAtTheClock(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = NobodyLooksAtTheClock


class SoftStoreThatLies(CheckThenAct):
    """Soft, and says that its parent is the expected head when it is not."""

    @property
    def fencing(self) -> Fencing:
        return Fencing.SOFT


class TestSoftStoreThatLies(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = SoftStoreThatLies


class SoftStoreThatMovesNothing(SoftStore):
    """Answers every relocation with success and does it for nobody."""

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
        found = self._repository(repository)
        found.commit(to)
        found.branch(branch)


class TestSoftStoreThatMovesNothing(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = SoftStoreThatMovesNothing


class SoftStoreThatLooksTooEarly(SoftStore):
    """Does not look again after the last check, which takes a call to another server."""

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
        found = self._repository(repository)
        found.commit(to)
        found.require_unmoved(branch, expected_head)
        last_check()()
        with self._lock:
            found.move(found.branch(branch), to)


class TestSoftStoreThatLooksTooEarly(OnMemory):
    kind: ClassVar[type[MemoryWorkspaceStore]] = SoftStoreThatLooksTooEarly

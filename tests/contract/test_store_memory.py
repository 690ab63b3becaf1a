"""The WorkspaceStore contract on the in-memory store."""

from pathlib import Path

import pytest

from perago.domain.ids import BranchName, CommitId, Digest, ObjectPath, RepositoryName
from perago.testing.clock import FakeClock
from perago.testing.memory_direct_store import MemoryDirectStore
from perago.testing.memory_store import MemoryWorkspaceStore
from perago.testing.store_contract import (
    CanonicalTreeContract,
    CorruptionContract,
    DirectStoreContract,
    StoreBench,
    WorkspaceStoreContract,
)


class TestMemoryWorkspaceStore(WorkspaceStoreContract, CanonicalTreeContract, CorruptionContract):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> StoreBench:
        store = MemoryWorkspaceStore(FakeClock())
        return StoreBench(store=store, second=store, directory=tmp_path)

    def corrupt(
        self, bench: StoreBench, repository: RepositoryName, commit: CommitId, path: ObjectPath
    ) -> None:
        store = bench.store
        assert isinstance(store, MemoryWorkspaceStore)
        (entry,) = store.list_objects(repository, commit, path)
        content = store._contents[Digest(entry.checksum)]
        store._contents[Digest(entry.checksum)] = bytes([content[0] ^ 1]) + content[1:]


class TestMemoryDirectStore(WorkspaceStoreContract, DirectStoreContract):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> StoreBench:
        store = MemoryDirectStore(FakeClock())
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

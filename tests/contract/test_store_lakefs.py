"""The WorkspaceStore contract on a real lakeFS server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlparse

import pytest

from perago.adapters.lakefs import LakeFSWorkspaceStore
from perago.adapters.servers import ThrowawayLakeFS
from perago.domain.ids import BranchName, CommitId, ObjectPath, RepositoryName
from perago.testing.store_contract import (
    CorruptionContract,
    DirectStoreContract,
    StoreBench,
    WorkspaceStoreContract,
)
from tests.integration.lakefs.stranger import Stranger
from tests.lakefs_server import connection_to

pytestmark = pytest.mark.lakefs


@pytest.fixture
def bench(lakefs_server: ThrowawayLakeFS, tmp_path: Path) -> Iterator[StoreBench]:
    connection = connection_to(lakefs_server)
    with LakeFSWorkspaceStore(connection) as store, LakeFSWorkspaceStore(connection) as second:
        yield StoreBench(store=store, second=second, directory=tmp_path)


class TestLakeFSStore(WorkspaceStoreContract, CorruptionContract, DirectStoreContract):
    @pytest.fixture(autouse=True)
    def know_server(self, lakefs_server: ThrowawayLakeFS) -> None:
        self.connection = connection_to(lakefs_server)

    def put(
        self,
        bench: StoreBench,
        repository: RepositoryName,
        branch: BranchName,
        path: str,
        content: bytes,
    ) -> None:
        with Stranger(self.connection, repository, branch) as stranger:
            stranger.put(path, content)

    def corrupt(
        self, bench: StoreBench, repository: RepositoryName, commit: CommitId, path: ObjectPath
    ) -> None:
        (entry,) = bench.store.list_objects(repository, commit, path)
        assert entry.address is not None
        file = Path(urlparse(entry.address).path)
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)

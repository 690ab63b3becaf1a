"""The WorkspaceStore contract on the embedded store."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.adapters.embedded.store import Durability, EmbeddedWorkspaceStore
from perago.domain.ids import CommitId, ObjectPath, RepositoryName
from perago.testing.clock import FakeClock
from perago.testing.store_contract import (
    CanonicalTreeContract,
    CorruptionContract,
    StoreBench,
    WorkspaceStoreContract,
)
from perago.testing.store_contract.checkout import CheckoutContract

Stores = tuple[EmbeddedWorkspaceStore, EmbeddedWorkspaceStore]


def open_twice(home: Path, durability: Durability) -> Iterator[Stores]:
    clock = FakeClock()
    with (
        EmbeddedWorkspaceStore(home, clock, durability=durability) as store,
        EmbeddedWorkspaceStore(home, clock, durability=durability) as second,
    ):
        yield store, second


# One home for all tests of a class: each makes repositories of its own.


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    yield from open_twice(tmp_path_factory.mktemp("home"), Durability.PROCESS)


@pytest.fixture(scope="module")
def power_safe_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    yield from open_twice(tmp_path_factory.mktemp("home"), Durability.POWER)


class TestEmbeddedWorkspaceStore(WorkspaceStoreContract, CanonicalTreeContract):
    @pytest.fixture
    def bench(self, stores: Stores, tmp_path: Path) -> StoreBench:
        store, second = stores
        return StoreBench(store=store, second=second, directory=tmp_path)


class TestPowerSafeEmbeddedWorkspaceStore(CheckoutContract):
    @pytest.fixture
    def bench(self, power_safe_stores: Stores, tmp_path: Path) -> StoreBench:
        store, second = power_safe_stores
        return StoreBench(store=store, second=second, directory=tmp_path)


class TestDamagedEmbeddedWorkspaceStore(CorruptionContract):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> Iterator[StoreBench]:
        files = tmp_path / "files"
        files.mkdir()
        for store, second in open_twice(tmp_path / "home", Durability.PROCESS):
            yield StoreBench(store=store, second=second, directory=files)

    def corrupt(
        self, bench: StoreBench, repository: RepositoryName, commit: CommitId, path: ObjectPath
    ) -> None:
        (entry,) = bench.store.list_objects(repository, commit, path)
        home = bench.directory.parent / "home"
        file = home / "objects" / entry.checksum[:2] / entry.checksum[2:]
        if file.exists():
            file.chmod(0o644)
            content = file.read_bytes()
            file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
            return
        connection = sqlite3.connect(home / "store.sqlite3")
        with connection:
            changed = connection.execute(
                "UPDATE contents SET data = CAST(X'00' || substr(data, 2) AS BLOB) "
                "WHERE digest = ?",
                (bytes.fromhex(entry.checksum),),
            )
            assert changed.rowcount == 1
        connection.close()

"""Whether a workspace fits: the store gives room first, and only then is it refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from perago import WorkspaceSpec
from perago.adapters.localfs.directories import LocalAttemptDirectory
from perago.adapters.localfs.disks import probe_traits
from perago.app.checkout import check_out
from perago.domain.errors import InsufficientDiskError
from perago.domain.ids import (
    BranchName,
    CommitId,
    Digest,
    ObjectPath,
    RelativePath,
    RepositoryName,
)
from perago.domain.workspace import ObjectEntry, WorkspaceRef
from perago.ports import LocalFile, OnTransfer
from perago.testing import FakeClock, MemoryWorkspaceStore
from perago.testing.store_contract.bench import digest_of

LAB, MAIN = RepositoryName("lab"), BranchName("main")
BLOCK = 4096
WORKSPACE_BYTES = 3 * BLOCK


class SmallDisk(LocalAttemptDirectory):
    """An attempt directory that a store shares its disk with."""

    free = 0

    @property
    def free_bytes(self) -> int:
        return self.free


class HoardingStore(MemoryWorkspaceStore):
    """Holds part of a disk, takes more with a checkout, and gives back when it is asked to."""

    disk: SmallDisk
    held = 0
    appetite = 0

    def checkout(
        self,
        repository: RepositoryName,
        commit: CommitId,
        files: Mapping[RelativePath, ObjectEntry],
        directory: Path,
        on_transfer: OnTransfer,
    ) -> dict[RelativePath, Digest]:
        digests = super().checkout(repository, commit, files, directory, on_transfer)
        self.disk.free -= WORKSPACE_BYTES
        taken = min(self.appetite, self.disk.free)
        self.disk.free -= taken
        self.held += taken
        return digests

    def make_room(self, directory: Path, needed: int) -> None:
        assert directory == self.disk.root
        given = min(self.held, max(0, needed - self.disk.free))
        self.held -= given
        self.disk.free += given


@pytest.fixture
def store(tmp_path: Path) -> HoardingStore:
    made = HoardingStore(FakeClock())
    made.create_repository(LAB)
    contents = {"a": b"1", "b": b"2" * (BLOCK + 1)}
    writes = {}
    for name, content in contents.items():
        path = tmp_path / name
        path.write_bytes(content)
        writes[ObjectPath(name)] = LocalFile(
            path=path, digest=digest_of(content), size=len(content)
        )
    made.commit_changes(
        *(LAB, MAIN),
        writes=writes,
        deletes=[],
        message="load",
        metadata={},
        on_transfer=lambda _objects, _size: None,
    )
    (tmp_path / "attempt" / "files").mkdir(parents=True)
    made.disk = SmallDisk(tmp_path / "attempt", traits=probe_traits(tmp_path))
    return made


def run(store: HoardingStore, *, copies: int = 1) -> list[str]:
    """Check out; the names of the files that are there then."""
    checkout = check_out(
        WorkspaceSpec(prefix="/"),
        WorkspaceRef(repository=LAB, branch=MAIN, ref=store.head(LAB, MAIN).id),
        store.disk,
        store=store,
        copies=copies,
        on_transfer=lambda _objects, _size: None,
    )
    return sorted(path.name for path in checkout.directory.files.iterdir())


def test_a_store_keeps_what_it_holds_where_the_workspace_fits(store: HoardingStore) -> None:
    store.disk.free, store.held = WORKSPACE_BYTES, 10 * BLOCK
    assert run(store) == ["a", "b"]
    assert store.held == 10 * BLOCK


def test_a_store_gives_back_what_the_workspace_lacks_and_no_more(store: HoardingStore) -> None:
    store.disk.free, store.held = BLOCK, 10 * BLOCK
    assert run(store) == ["a", "b"]
    assert store.held == 8 * BLOCK


def test_a_workspace_is_refused_where_that_is_not_enough(store: HoardingStore) -> None:
    store.disk.free, store.held = BLOCK, BLOCK
    with pytest.raises(InsufficientDiskError, match=f"{WORKSPACE_BYTES} bytes .* {2 * BLOCK} free"):
        run(store)
    assert list(store.disk.files.iterdir()) == []


def test_every_copy_counts(store: HoardingStore) -> None:
    store.disk.free, store.held = 2 * WORKSPACE_BYTES - 1, 0
    with pytest.raises(InsufficientDiskError):
        run(store, copies=2)
    store.held = 1
    assert run(store, copies=2) == ["a", "b"]


def test_what_a_store_took_meanwhile_it_gives_back_for_the_second_copy(
    store: HoardingStore,
) -> None:
    store.disk.free, store.appetite = 2 * WORKSPACE_BYTES + BLOCK, 10 * BLOCK
    assert run(store, copies=2) == ["a", "b"]
    assert (store.disk.free, store.held) == (WORKSPACE_BYTES, BLOCK)

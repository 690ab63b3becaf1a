"""What an import writes, and when it writes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from perago.adapters.localfs.scan import scan_directory
from perago.adapters.localfs.tree_index import TreeIndex
from perago.app.transfer import ImportRequest, import_directory
from perago.domain.errors import NothingChangedError
from perago.domain.ids import BranchName, CommitId, ObjectPath, RepositoryName
from perago.domain.publication import Commit
from perago.domain.workspace import ObjectEntry, Prefix
from perago.ports import LocalFile, LocalTree, OnTransfer
from perago.testing import FakeClock, MemoryWorkspaceStore

LAB, MAIN = RepositoryName("lab"), BranchName("main")


class ForgetfulStore(MemoryWorkspaceStore):
    """Keeps no digest of ours, as a server that others write to."""

    def list_objects(
        self, repository: RepositoryName, commit: CommitId, prefix: str = ""
    ) -> Iterator[ObjectEntry]:
        for entry in super().list_objects(repository, commit, prefix):
            yield replace(entry, digest=None)


class OvertakenStore(MemoryWorkspaceStore):
    """Somebody else commits the same between the look and the commit."""

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
        raise NothingChangedError("there is nothing to commit")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "a").write_text("1")
    (tmp_path / "in" / "sub" / "b").write_bytes(bytes(3_000_000))
    return tmp_path / "in"


def scan(directory: Path) -> LocalTree:
    return scan_directory(directory, TreeIndex())


def load(
    store: MemoryWorkspaceStore, directory: Path, *, mirror: bool = False
) -> tuple[Commit | None, int]:
    """Import, and say how many objects were moved."""
    moved: list[int] = []
    commit = import_directory(
        ImportRequest(
            directory=directory,
            repository=LAB,
            branch=MAIN,
            prefix=Prefix.parse("raw"),
            message="load",
            mirror=mirror,
        ),
        store=store,
        scan=scan,
        on_transfer=lambda objects, _size: moved.append(objects),
    )
    return commit, sum(moved)


@pytest.fixture(params=[MemoryWorkspaceStore, ForgetfulStore])
def store(request: pytest.FixtureRequest) -> MemoryWorkspaceStore:
    kind: type[MemoryWorkspaceStore] = request.param
    made = kind(FakeClock())
    made.create_repository(LAB)
    return made


def paths(store: MemoryWorkspaceStore) -> list[str]:
    return [entry.path for entry in store.list_objects(LAB, store.head(LAB, MAIN).id)]


def test_the_same_files_again_are_no_commit(store: MemoryWorkspaceStore, directory: Path) -> None:
    first, moved = load(store, directory)
    again = load(store, directory)

    assert first is not None
    assert moved == 2
    assert again == (None, 0)
    assert paths(store) == ["raw/a", "raw/sub/b"]


def test_only_what_changed_is_written(store: MemoryWorkspaceStore, directory: Path) -> None:
    load(store, directory)
    changed = bytearray(3_000_000)
    changed[-1] = 1
    (directory / "sub" / "b").write_bytes(changed)

    commit, moved = load(store, directory)

    assert commit is not None
    assert moved == 1


def test_a_mirror_also_deletes(store: MemoryWorkspaceStore, directory: Path) -> None:
    load(store, directory)
    (directory / "a").unlink()

    kept, _ = load(store, directory)
    deleted, _ = load(store, directory, mirror=True)

    assert kept is None
    assert deleted is not None
    assert paths(store) == ["raw/sub/b"]


def test_a_store_that_holds_it_all_by_now_is_no_failure(directory: Path) -> None:
    store = OvertakenStore(FakeClock())
    store.create_repository(LAB)

    assert load(store, directory) == (None, 0)

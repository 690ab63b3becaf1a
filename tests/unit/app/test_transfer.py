"""What an import and an export write, and when they write nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from perago.adapters.localfs.scan import scan_directory
from perago.adapters.localfs.tree_index import TreeIndex
from perago.app.transfer import ImportRequest, export_directory, import_directory
from perago.domain.attempt import LogicalTask
from perago.domain.errors import (
    InsufficientDiskError,
    NothingChangedError,
    StoreError,
    UnmappableObjectError,
)
from perago.domain.ids import (
    BranchName,
    CommitId,
    ObjectPath,
    RelativePath,
    RepositoryName,
    WorkflowId,
)
from perago.domain.publication import Commit, Refuse, build_workspace_publication_plan
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


class RacedStore(MemoryWorkspaceStore):
    """As a soft store may: somebody else commits in between, and so does the import."""

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
        first, *rest = writes.items()

        def commit(changed: Mapping[ObjectPath, LocalFile]) -> Commit:
            return super(RacedStore, self).commit_changes(
                repository,
                branch,
                writes=changed,
                deletes=deletes,
                message=message,
                metadata=metadata,
                on_transfer=on_transfer,
            )

        commit(dict([first]))
        return commit(dict(rest))


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeDisk:
    free_bytes: int = 1 << 40
    folds_case: bool = False
    normalises: bool = False


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


def export(store: MemoryWorkspaceStore, target: Path, disk: FakeDisk) -> int:
    return export_directory(
        target,
        store=store,
        repository=LAB,
        commit=store.head(LAB, MAIN).id,
        prefix=Prefix.parse("raw"),
        disk=disk,
        on_transfer=lambda _objects, _size: None,
    )


def test_an_export_writes_what_was_imported(
    store: MemoryWorkspaceStore, directory: Path, tmp_path: Path
) -> None:
    load(store, directory)
    whole_blocks = 4096 + 733 * 4096

    count = export(store, tmp_path / "out" / "deep", FakeDisk(free_bytes=whole_blocks))

    assert count == 2
    assert scan(tmp_path / "out" / "deep").files.keys() == scan(directory).files.keys()


def test_an_export_that_does_not_fit_is_refused_before_anything_is_written(
    store: MemoryWorkspaceStore, directory: Path, tmp_path: Path
) -> None:
    load(store, directory)
    whole_blocks = 4096 + 733 * 4096

    with pytest.raises(InsufficientDiskError, match="the export needs 3006464 bytes") as caught:
        export(store, tmp_path / "out" / "deep", FakeDisk(free_bytes=whole_blocks - 1))

    assert caught.value.hint
    assert not (tmp_path / "out").exists()


def test_an_export_of_twins_is_refused_where_the_file_system_folds_case(
    store: MemoryWorkspaceStore, directory: Path, tmp_path: Path
) -> None:
    load(store, directory)
    twin = scan(directory).files[RelativePath("a")]
    store.commit_changes(
        *(LAB, MAIN),
        writes={ObjectPath("raw/A"): twin},
        deletes=[],
        message="a twin",
        metadata={},
        on_transfer=lambda _objects, _size: None,
    )

    with pytest.raises(UnmappableObjectError, match="for the same name"):
        export(store, tmp_path / "out", FakeDisk(folds_case=True))

    assert not (tmp_path / "out").exists()


def test_an_import_that_was_raced_is_told(directory: Path) -> None:
    store = RacedStore(FakeClock())
    store.create_repository(LAB)

    with pytest.raises(StoreError, match="had moved on meanwhile") as caught:
        load(store, directory)

    assert store.head(LAB, MAIN).id in caught.value.message
    assert "perago store log lab@main" in (caught.value.hint or "")


def test_an_import_is_never_taken_for_an_abandoned_publication(
    store: MemoryWorkspaceStore, directory: Path
) -> None:
    before = store.head(LAB, MAIN).id
    load(store, directory)

    plan = build_workspace_publication_plan(
        input_ref=before,
        head=store.head(LAB, MAIN),
        logical_task=LogicalTask(workflow_id=WorkflowId("w"), reference_name="step", iteration=0),
        staged=None,
    )

    assert isinstance(plan, Refuse)

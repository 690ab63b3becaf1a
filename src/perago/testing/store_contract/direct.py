"""The open staging area: what others wrote to a branch, seen, tidied and committed."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pytest

from perago.domain.errors import HeadMovedError, NotFoundInStoreError, NothingChangedError
from perago.domain.ids import BranchName, CommitId, ObjectPath, RepositoryName
from perago.domain.publication import Commit, StagedWorkspace
from perago.domain.staged_changes import ChangeKind, ObjectChange
from perago.domain.staging import STAGING_PREFIX
from perago.ports import DirectStore
from perago.testing.store_contract.bench import MAIN, NOWHERE, StoreBench

INPUT = {"in/a": b"a", "out/changed": b"1", "out/gone": b"g", "out/kept": b"k"}


def direct(bench: StoreBench) -> DirectStore:
    """The store under test with its open staging area."""
    assert hasattr(bench.store, "commit_staged")
    store: DirectStore = bench.store  # type: ignore[assignment] # said by the subclass of the suite
    return store


def open_staging(bench: StoreBench, repository: RepositoryName) -> tuple[BranchName, CommitId]:
    """A staging branch at the head of main, and that head."""
    head = bench.head(repository)
    branch = BranchName(f"{STAGING_PREFIX}{bench.suffix}-{next(bench.numbers)}")
    bench.store.create_branch(repository, branch, head, hidden=True)
    return branch, head


def commit_staged(
    bench: StoreBench, repository: RepositoryName, branch: BranchName, head: CommitId
) -> Commit:
    """Commit what the branch shows."""
    return direct(bench).commit_staged(
        repository, branch, expected_head=head, message="staged", metadata={"by": "the suite"}
    )


def added(path: str, size: int) -> ObjectChange:
    """A change that adds an object."""
    return ObjectChange(path=ObjectPath(path), kind=ChangeKind.ADDED, size=size)


class DirectStoreContract(ABC):
    """What the port says of staging areas; beside `WorkspaceStoreContract`."""

    @abstractmethod
    def put(
        self,
        bench: StoreBench,
        repository: RepositoryName,
        branch: BranchName,
        path: str,
        content: bytes,
    ) -> None:
        """Write an object to a branch through the data plane, uncommitted."""

    def write_all(
        self, bench: StoreBench, repository: RepositoryName, branch: BranchName
    ) -> list[ObjectChange]:
        """One change of each kind, in the order of a listing."""
        self.put(bench, repository, branch, "out/new/b", b"four")
        self.put(bench, repository, branch, "out/changed", b"22")
        direct(bench).remove_staged(repository, branch, [ObjectPath("out/gone")])
        return [
            ObjectChange(path=ObjectPath("out/changed"), kind=ChangeKind.CHANGED, size=2),
            ObjectChange(path=ObjectPath("out/gone"), kind=ChangeKind.REMOVED),
            added("out/new/b", 4),
        ]

    def test_a_new_staging_has_no_changes_and_shows_its_head(self, bench: StoreBench) -> None:
        repository = bench.repository(INPUT)
        branch, _ = open_staging(bench, repository)

        store = direct(bench)
        assert list(store.staged_changes(repository, branch)) == []
        assert [one.path for one in store.list_staged(repository, branch)] == sorted(INPUT)

    def test_changes_are_seen_before_they_are_committed(self, bench: StoreBench) -> None:
        repository = bench.repository(INPUT)
        branch, head = open_staging(bench, repository)

        changes = self.write_all(bench, repository, branch)

        store = direct(bench)
        assert list(store.staged_changes(repository, branch)) == changes
        shown = {one.path: one.size for one in store.list_staged(repository, branch, "out/")}
        assert shown == {"out/changed": 2, "out/kept": 1, "out/new/b": 4}
        assert bench.head(repository, branch) == head
        assert bench.contents(repository, head) == INPUT

    def test_a_commit_holds_exactly_what_the_branch_showed(self, bench: StoreBench) -> None:
        repository = bench.repository(INPUT)
        branch, head = open_staging(bench, repository)
        changes = self.write_all(bench, repository, branch)

        made = commit_staged(bench, repository, branch, head)

        assert made.parents == (head,)
        assert (made.message, made.metadata) == ("staged", {"by": "the suite"})
        assert bench.store.head(repository, branch) == made
        assert bench.contents(repository, made.id) == {
            "in/a": b"a",
            "out/changed": b"22",
            "out/kept": b"k",
            "out/new/b": b"four",
        }
        store = direct(bench)
        assert list(store.staged_changes(repository, branch)) == []
        assert list(store.changes_between(repository, head, made.id)) == changes

    def test_the_same_way_back_is_the_opposite(self, bench: StoreBench) -> None:
        repository = bench.repository(INPUT)
        branch, head = open_staging(bench, repository)
        self.write_all(bench, repository, branch)
        made = commit_staged(bench, repository, branch, head)

        back = list(direct(bench).changes_between(repository, made.id, head))

        assert [(one.path, one.kind) for one in back] == [
            ("out/changed", ChangeKind.CHANGED),
            ("out/gone", ChangeKind.ADDED),
            ("out/new/b", ChangeKind.REMOVED),
        ]
        assert list(direct(bench).changes_between(repository, head, head)) == []

    def test_what_was_written_can_be_removed_again(self, bench: StoreBench) -> None:
        repository = bench.repository(INPUT)
        branch, head = open_staging(bench, repository)
        self.put(bench, repository, branch, "out/_SUCCESS", b"")
        self.put(bench, repository, branch, "out/t/", b"")

        strays = [ObjectPath("out/_SUCCESS"), ObjectPath("out/t/"), ObjectPath("never/there")]
        direct(bench).remove_staged(repository, branch, strays)

        assert list(direct(bench).staged_changes(repository, branch)) == []
        with pytest.raises(NothingChangedError):
            commit_staged(bench, repository, branch, head)
        assert bench.head(repository, branch) == head

    def test_a_marker_is_an_object_like_any_other(self, bench: StoreBench) -> None:
        repository = bench.repository()
        branch, _ = open_staging(bench, repository)
        self.put(bench, repository, branch, "t/", b"")
        self.put(bench, repository, branch, "t/a", b"1")

        changes = direct(bench).staged_changes(repository, branch)

        assert list(changes) == [added("t/", 0), added("t/a", 1)]

    def test_a_staging_that_stands_elsewhere_is_not_committed(self, bench: StoreBench) -> None:
        repository = bench.repository(INPUT)
        branch, head = open_staging(bench, repository)
        moved = bench.commit(repository, branch, {"out/else": b"1"}).id
        self.put(bench, repository, branch, "out/new", b"n")

        with pytest.raises(HeadMovedError):
            commit_staged(bench, repository, branch, head)
        assert bench.head(repository, branch) == moved

    def test_a_staged_commit_can_be_published(self, bench: StoreBench) -> None:
        repository = bench.repository(INPUT)
        branch, head = open_staging(bench, repository)
        self.write_all(bench, repository, branch)
        made = commit_staged(bench, repository, branch, head)
        staged = StagedWorkspace(repository=repository, branch=branch, commit=made.id)

        published = bench.merge(staged, expected_head=head)
        bench.store.delete_branch(repository, branch)

        assert published.parents == (head,)
        assert published.tree == made.tree
        assert bench.read(repository, published.id, "out/new/b") == b"four"

    def test_one_staging_does_not_show_what_is_on_another(self, bench: StoreBench) -> None:
        repository = bench.repository(INPUT)
        branch, _ = open_staging(bench, repository)
        other, _ = open_staging(bench, repository)

        self.put(bench, repository, branch, "out/new", b"n")

        assert list(direct(bench).staged_changes(repository, other)) == []
        assert bench.paths(repository, bench.head(repository, MAIN)) == sorted(INPUT)

    def test_many_changes_are_listed_whole_and_in_order(self, bench: StoreBench) -> None:
        repository = bench.repository()
        branch, head = open_staging(bench, repository)
        names = [f"out/{number:04d}" for number in range(1_100)]
        writes = dict.fromkeys(names, b"x")
        made = bench.commit(repository, branch, writes)

        store = direct(bench)
        changes = store.changes_between(repository, head, made.id)
        assert [one.path for one in changes] == names
        assert [one.path for one in store.list_staged(repository, branch)] == names
        store.remove_staged(repository, branch, [ObjectPath(name) for name in names])
        gone = list(store.staged_changes(repository, branch))
        assert [(one.path, one.kind) for one in gone] == [
            (name, ChangeKind.REMOVED) for name in names
        ]

    def test_what_is_not_there_is_named(self, bench: StoreBench) -> None:
        repository = bench.repository()
        nowhere = BranchName(f"{STAGING_PREFIX}nowhere")
        store, head = direct(bench), bench.head(repository)
        with pytest.raises(NotFoundInStoreError, match="nowhere"):
            list(store.staged_changes(repository, nowhere))
        with pytest.raises(NotFoundInStoreError, match="nowhere"):
            list(store.list_staged(repository, nowhere))
        with pytest.raises(NotFoundInStoreError, match="nowhere"):
            store.remove_staged(repository, nowhere, [ObjectPath("a")])
        with pytest.raises(NotFoundInStoreError, match="nowhere"):
            commit_staged(bench, repository, nowhere, head)
        with pytest.raises(NotFoundInStoreError, match=NOWHERE):
            list(store.changes_between(repository, head, NOWHERE))
        with pytest.raises(NotFoundInStoreError, match=NOWHERE):
            list(store.changes_between(repository, NOWHERE, head))

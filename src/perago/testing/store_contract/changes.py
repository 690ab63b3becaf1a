"""Changes: one commit that differs in exactly what was asked for, or nothing at all."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from functools import partial

import pytest

from perago.domain.errors import (
    HeadMovedError,
    NotFoundInStoreError,
    NothingChangedError,
    UnpublishableFileError,
)
from perago.domain.ids import BranchName, CommitId, ObjectPath, RepositoryName
from perago.domain.publication import Commit
from perago.ports import Fencing, LocalFile, OnTransfer
from perago.testing.store_contract.bench import MAIN, StoreBench, ignore_transfer, race

_LARGE = bytes(range(256)) * 1200


def commit_files(
    bench: StoreBench,
    repository: RepositoryName,
    files: Mapping[str, LocalFile],
    deletes: Collection[str] = (),
    on_transfer: OnTransfer = ignore_transfer,
) -> Commit:
    """Commit local files to the main branch."""
    return bench.store.commit_changes(
        repository,
        MAIN,
        writes={ObjectPath(path): file for path, file in files.items()},
        deletes=[ObjectPath(path) for path in deletes],
        message="a change",
        metadata={},
        on_transfer=on_transfer,
    )


class ChangeContract:
    """What the port says of commit_changes."""

    def test_a_commit_differs_in_exactly_the_given_objects(self, bench: StoreBench) -> None:
        before = {"keep": b"k", "change": b"1", "drop": b"d", "dir/keep": b"k", "dir/drop": b"d"}
        repository = bench.repository(before)
        old = bench.head(repository)
        made = bench.commit(
            repository, MAIN, {"change": b"2", "add/new": b"n"}, ["drop", "dir/drop"]
        )
        assert bench.contents(repository, made.id) == {
            "keep": b"k",
            "change": b"2",
            "dir/keep": b"k",
            "add/new": b"n",
        }
        assert made.parents == (old,)
        assert bench.second.head(repository, MAIN) == made

    def test_an_object_may_come_to_lie_below_another(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1"})
        made = bench.commit(repository, MAIN, {"a/b": b"2"})
        assert bench.contents(repository, made.id) == {"a": b"1", "a/b": b"2"}
        made = bench.commit(repository, MAIN, {"a/b/c": b"3"}, ["a"])
        assert bench.contents(repository, made.id) == {"a/b": b"2", "a/b/c": b"3"}

    def test_everything_can_be_deleted(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1", "b/c": b"2"})
        last = bench.commit(repository, MAIN, {}, ["a", "b/c"])
        assert bench.paths(repository, last.id) == []

    def test_the_progress_of_a_commit_adds_up(self, bench: StoreBench) -> None:
        lock, moved = threading.Lock(), [0, 0]

        def on_transfer(objects: int, size: int) -> None:
            with lock:
                moved[0] += objects
                moved[1] += size

        contents = {"a": b"small", "b": _LARGE, "c": b"", "d": _LARGE}
        files = {path: bench.file(content) for path, content in contents.items()}
        commit_files(bench, bench.repository(), files, on_transfer=on_transfer)
        assert moved == [4, sum(map(len, contents.values()))]

    @pytest.mark.parametrize("stored", [False, True], ids=["new", "stored before"])
    @pytest.mark.parametrize("content", [b"scanned", _LARGE], ids=["small", "large"])
    @pytest.mark.parametrize("change", ["other", "longer", "shorter", "gone"])
    def test_a_file_that_changed_after_its_scan_is_refused(
        self, bench: StoreBench, content: bytes, change: str, stored: bool
    ) -> None:
        repository = bench.repository({"before": content} if stored else {"before": b"x"})
        old, file, good = bench.head(repository), bench.file(content), bench.file(b"good")
        match change:
            case "other":
                file.path.write_bytes(content[:-1] + b"?")
            case "longer":
                file.path.write_bytes(content + b"?")
            case "shorter":
                file.path.write_bytes(content[:-1])
            case _:
                file.path.unlink()
        with pytest.raises(UnpublishableFileError, match=file.path.name):
            commit_files(bench, repository, {"good": good, "bad": file})
        assert bench.head(repository) == old

    def test_a_delete_of_what_is_not_there_is_refused(self, bench: StoreBench) -> None:
        repository = bench.repository({"dir/file": b"1"})
        old = bench.head(repository)
        for path in ("missing", "dir", "dir/", "dir/fil", "dir/file/"):
            with pytest.raises(NotFoundInStoreError, match=path):
                bench.commit(repository, MAIN, {"new": b"2"}, [path])
        assert bench.head(repository) == old

    def test_there_is_never_an_empty_commit(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1", "b": b"2"})
        old = bench.head(repository)
        same: Mapping[str, bytes]
        for same in ({}, {"a": b"1"}, {"a": b"1", "b": b"2"}):
            with pytest.raises(NothingChangedError):
                bench.commit(repository, MAIN, same)
        assert bench.head(repository) == old

    def test_a_commit_to_what_is_not_there_names_it(self, bench: StoreBench) -> None:
        repository = bench.repository()
        with pytest.raises(NotFoundInStoreError, match="nowhere"):
            bench.commit(repository, BranchName("nowhere"), {"a": b"1"})
        with pytest.raises(NotFoundInStoreError, match="unknown"):
            bench.commit(RepositoryName("unknown"), MAIN, {"a": b"1"})

    def test_different_content_has_different_trees(self, bench: StoreBench) -> None:
        variants: list[dict[str, bytes]] = [
            {"a": b"1", "b": b"2"},
            {"a": b"2", "b": b"1"},
            {"a": b"1"},
            {"a": b"1", "b/": b"2"},
            {"a/b": b"1", "b": b"2"},
            {"ab": b"1"},
            {"a": b"12"},
        ]
        trees = [bench.store.head(bench.repository(contents), MAIN).tree for contents in variants]
        assert len(set(trees)) == len(variants)

    def test_readers_see_the_old_head_until_the_new_one_is_whole(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"old", "b": b"old"})
        old = bench.head(repository)
        seen: set[CommitId] = set()

        def on_transfer(_objects: int, _size: int) -> None:
            seen.add(bench.second.head(repository, MAIN).id)

        files = {path: bench.file(content) for path, content in {"a": b"new", "b": _LARGE}.items()}
        made = commit_files(bench, repository, files, on_transfer=on_transfer)
        assert seen == {old}
        assert bench.contents(repository, old) == {"a": b"old", "b": b"old"}
        assert bench.contents(repository, made.id) == {"a": b"new", "b": _LARGE}

    def test_a_branch_that_moves_meanwhile_is_not_advanced(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"old"})
        old = bench.head(repository)
        others: list[Commit] = []

        def on_transfer(_objects: int, _size: int) -> None:
            if not others:
                others.append(bench.commit(repository, MAIN, {"b": b"2"}, store=bench.second))

        files = {"a": bench.file(b"new")}
        if bench.store.fencing is Fencing.ATOMIC:
            with pytest.raises(HeadMovedError) as caught:
                commit_files(bench, repository, files, on_transfer=on_transfer)
            assert (caught.value.expected, caught.value.actual) == (old, others[0].id)
            assert bench.head(repository) == others[0].id
        else:
            try:
                made = commit_files(bench, repository, files, on_transfer=on_transfer)
            except HeadMovedError:
                assert bench.head(repository) == others[0].id
            else:
                assert made.parents != (old,)

    def test_of_racing_commits_none_is_lost(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"old"})
        for number in range(4):
            outcomes = race(
                [
                    partial(
                        bench.commit,
                        repository,
                        MAIN,
                        {f"{number}-{index}": b"x"},
                        store=client,
                    )
                    for index, client in enumerate(bench.clients(4))
                ]
            )
            made = {outcome.id for outcome in outcomes if isinstance(outcome, Commit)}
            assert made, outcomes
            history = {commit.id for commit in bench.store.log(repository, bench.head(repository))}
            assert made <= history
            lost = [outcome for outcome in outcomes if not isinstance(outcome, Commit)]
            assert all(isinstance(outcome, HeadMovedError) for outcome in lost), lost

    def test_branches_are_written_side_by_side(self, bench: StoreBench) -> None:
        repository = bench.repository({"shared": b"s"})
        names = [BranchName(f"side-{index}") for index in range(6)]
        for name in names:
            bench.store.create_branch(repository, name, bench.head(repository))
        outcomes = race(
            [
                partial(
                    bench.commit,
                    repository,
                    name,
                    {"same": _LARGE, "own": name.encode(), "small": b"same"},
                    store=client,
                )
                for name, client in zip(names, bench.clients(6), strict=True)
            ]
        )
        assert all(isinstance(outcome, Commit) for outcome in outcomes), outcomes
        for name in names:
            assert bench.contents(repository, bench.head(repository, name)) == {
                "shared": b"s",
                "same": _LARGE,
                "own": name.encode(),
                "small": b"same",
            }

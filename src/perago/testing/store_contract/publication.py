"""Publication: merge and relocate move a branch from where it is expected, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from perago.domain.errors import (
    HeadMovedError,
    NotFoundInStoreError,
    PeragoError,
    StoreError,
)
from perago.domain.ids import BranchName, CommitId, RepositoryName
from perago.domain.publication import Commit, StagedWorkspace, explain_unverified
from perago.ports import Fencing
from perago.testing.store_contract.bench import MAIN, NOWHERE, StoreBench, race

_ROUNDS = 5
_RACERS = 4


class PublicationContract:
    """What the port says of merge and relocate."""

    def test_a_merge_has_the_expected_parent_and_the_staged_tree(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1", "b": b"1"})
        old = bench.head(repository)
        staged = bench.stage(repository, old, {"a": b"2", "c": b"2"})
        metadata = {"perago.phase": "confirm", "ключ": "значение"}
        published = bench.merge(staged, expected_head=old, metadata=metadata)
        assert published.parents == (old,)
        assert published.tree == bench.store.read_commit(repository, staged.commit).tree
        assert published.message == "publish"
        assert dict(published.metadata) == metadata
        assert bench.second.head(repository, MAIN) == published
        assert bench.contents(repository, published.id) == {"a": b"2", "b": b"1", "c": b"2"}

    def test_a_merge_squashes_the_staging(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1"})
        old = bench.head(repository)
        first = bench.stage(repository, old, {"a": b"2"})
        last = bench.commit(repository, first.branch, {"b": b"3"}).id
        staged = StagedWorkspace(repository=repository, branch=first.branch, commit=last)
        published = bench.merge(staged, expected_head=old)
        history = [commit.id for commit in bench.store.log(repository, published.id)]
        assert history[:2] == [published.id, old]
        assert not {first.commit, last} & set(history)
        assert bench.contents(repository, published.id) == {"a": b"2", "b": b"3"}

    def test_a_merge_leaves_the_staging_alone(self, bench: StoreBench) -> None:
        repository = bench.repository()
        staged = bench.stage(repository, bench.head(repository), {"a": b"1"})
        published = bench.merge(staged, expected_head=bench.head(repository))
        assert bench.head(repository, staged.branch) == staged.commit
        bench.store.delete_branch(repository, staged.branch)
        assert bench.contents(repository, published.id) == {"a": b"1"}

    def test_a_merge_into_a_branch_that_is_elsewhere_is_found_out(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1"})
        old = bench.head(repository)
        staged = bench.stage(repository, old, {"a": b"2"})
        moved = bench.commit(repository, MAIN, {"b": b"1"}).id
        if bench.store.fencing is Fencing.ATOMIC:
            with pytest.raises(HeadMovedError) as caught:
                bench.merge(staged, expected_head=old)
            assert (caught.value.repository, caught.value.branch) == (repository, MAIN)
            assert (caught.value.expected, caught.value.actual) == (old, moved)
            assert bench.head(repository) == moved
        else:
            self._find_out(bench, staged, old, moved)

    def _find_out(
        self, bench: StoreBench, staged: StagedWorkspace, expected: CommitId, actual: CommitId
    ) -> None:
        try:
            published = bench.merge(staged, expected_head=expected)
        except HeadMovedError:
            assert bench.head(staged.repository) == actual
        else:
            assert judge(bench, staged, published, expected) is not None

    def test_a_merge_back_from_a_branch_that_is_ahead_is_found_out_too(
        self, bench: StoreBench
    ) -> None:
        repository = bench.repository({"a": b"1"})
        old = bench.head(repository)
        staged = bench.stage(repository, old, {"a": b"2"})
        bench.merge(staged, expected_head=old)
        if bench.store.fencing is Fencing.ATOMIC:
            published = bench.head(repository)
            with pytest.raises(HeadMovedError):
                bench.merge(staged, expected_head=old)
            assert bench.head(repository) == published
        else:
            with pytest.raises(StoreError):
                bench.merge(staged, expected_head=old)

    def test_there_is_never_an_empty_merge(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1"})
        old = bench.head(repository)
        bench.store.create_branch(repository, BranchName("same"), old)
        staged = StagedWorkspace(repository=repository, branch=BranchName("same"), commit=old)
        with pytest.raises(StoreError):
            bench.merge(staged, expected_head=old)
        assert bench.head(repository) == old

    def test_a_relocated_branch_stands_where_it_was_sent(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1"})
        old = bench.head(repository)
        abandoned = bench.commit(repository, MAIN, {"a": b"abandoned"})
        staged = bench.stage(repository, old, {"a": b"2"})
        bench.relocate(repository, to=staged.commit, expected_head=abandoned.id)
        assert bench.second.head(repository, MAIN).id == staged.commit
        history = [commit.id for commit in bench.store.log(repository, bench.head(repository))]
        assert history[:2] == [staged.commit, old]
        assert abandoned.id not in history
        assert bench.store.read_commit(repository, abandoned.id) == abandoned
        assert bench.contents(repository, abandoned.id) == {"a": b"abandoned"}

    def test_a_branch_is_relocated_back_to_an_ancestor(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1"})
        old = bench.head(repository)
        abandoned = bench.commit(repository, MAIN, {"a": b"2"})
        bench.relocate(repository, to=old, expected_head=abandoned.id)
        assert bench.head(repository) == old
        following = bench.commit(repository, MAIN, {"a": b"3"})
        assert following.parents == (old,)

    def test_a_branch_that_is_elsewhere_is_not_relocated(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1"})
        old = bench.head(repository)
        staged = bench.stage(repository, old, {"a": b"2"})
        moved = bench.commit(repository, MAIN, {"b": b"1"}).id
        if bench.store.fencing is Fencing.ATOMIC:
            with pytest.raises(HeadMovedError) as caught:
                bench.relocate(repository, to=staged.commit, expected_head=old)
            assert (caught.value.expected, caught.value.actual) == (old, moved)
            assert bench.head(repository) == moved
        else:
            try:
                bench.relocate(repository, to=staged.commit, expected_head=old)
            except HeadMovedError:
                assert bench.head(repository) == moved
            else:
                assert bench.head(repository) == staged.commit

    def test_a_publication_of_or_to_what_is_not_there_names_it(self, bench: StoreBench) -> None:
        repository, other = bench.repository({"a": b"1"}), bench.repository({"a": b"2"})
        head, unknown = bench.head(repository), RepositoryName("unknown")
        staged = bench.stage(repository, head, {"a": b"3"})
        gone, nowhere = BranchName("gone"), BranchName("nowhere")
        for wrong, name in (
            (StagedWorkspace(repository=unknown, branch=gone, commit=staged.commit), unknown),
            (StagedWorkspace(repository=repository, branch=gone, commit=staged.commit), gone),
            (
                StagedWorkspace(repository=repository, branch=staged.branch, commit=NOWHERE),
                NOWHERE,
            ),
        ):
            with pytest.raises(NotFoundInStoreError, match=name):
                bench.merge(wrong, expected_head=head)
        with pytest.raises(NotFoundInStoreError, match=nowhere):
            bench.merge(staged, target=nowhere, expected_head=head)
        with pytest.raises(NotFoundInStoreError, match=unknown):
            bench.relocate(unknown, to=head, expected_head=head)
        with pytest.raises(NotFoundInStoreError, match=nowhere):
            bench.relocate(repository, branch=nowhere, to=head, expected_head=head)
        for missing in (NOWHERE, bench.head(other)):
            with pytest.raises(NotFoundInStoreError, match=missing):
                bench.relocate(repository, to=missing, expected_head=head)
        assert bench.head(repository) == head

    def test_of_racing_merges_exactly_one_is_published(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"0"})
        for number in range(_ROUNDS):
            head = bench.head(repository)
            stagings = [
                bench.stage(repository, head, {"a": f"{number}-{index}".encode()})
                for index in range(_RACERS)
            ]
            outcomes = race(
                [
                    partial(bench.merge, staged, expected_head=head, store=client)
                    for staged, client in zip(stagings, bench.clients(_RACERS), strict=True)
                ]
            )
            sound = [
                outcome
                for staged, outcome in zip(stagings, outcomes, strict=True)
                if isinstance(outcome, Commit) and judge(bench, staged, outcome, head) is None
            ]
            assert len(sound) == 1, outcomes
            if bench.store.fencing is Fencing.ATOMIC:
                _assert_losers_found_it_moved(outcomes)
                assert bench.store.head(repository, MAIN) == sound[0]

    def test_of_racing_relocations_exactly_one_moves_the_branch(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"0"})
        for number in range(_ROUNDS):
            base = bench.head(repository)
            abandoned = bench.commit(repository, MAIN, {"a": f"abandoned-{number}".encode()}).id
            targets = [
                bench.stage(repository, base, {"a": f"{number}-{index}".encode()}).commit
                for index in range(_RACERS)
            ]
            outcomes = race(
                [
                    partial(
                        bench.relocate, repository, to=to, expected_head=abandoned, store=client
                    )
                    for to, client in zip(targets, bench.clients(_RACERS), strict=True)
                ]
            )
            moved = [to for to, out in zip(targets, outcomes, strict=True) if out is None]
            assert bench.head(repository) in moved
            if bench.store.fencing is Fencing.ATOMIC:
                _assert_losers_found_it_moved(outcomes)

    def test_a_merge_and_a_relocation_never_both_succeed(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"0"})
        for number in range(_ROUNDS):
            base = bench.head(repository)
            head = bench.commit(repository, MAIN, {"a": f"head-{number}".encode()}).id
            staged = bench.stage(repository, head, {"a": f"merged-{number}".encode()})
            other = bench.stage(repository, base, {"a": f"moved-{number}".encode()}).commit
            one, two = bench.clients(2)
            calls: list[Callable[[], Commit | None]] = [
                partial(bench.merge, staged, expected_head=head, store=one),
                partial(bench.relocate, repository, to=other, expected_head=head, store=two),
            ]
            merged, moved = race(calls)
            if bench.store.fencing is Fencing.ATOMIC:
                _assert_losers_found_it_moved([merged, moved])
                winner = merged.id if isinstance(merged, Commit) else other
                assert bench.head(repository) == winner
            else:
                assert isinstance(merged, Commit) or moved is None


def judge(
    bench: StoreBench, staged: StagedWorkspace, published: Commit, expected: CommitId
) -> str | None:
    """What a caller finds out about its publication afterwards; None when all is well."""
    tree = bench.store.read_commit(staged.repository, staged.commit).tree
    return explain_unverified(published=published, input_ref=expected, staged_tree=tree)


def _assert_losers_found_it_moved(outcomes: Sequence[Commit | PeragoError | None]) -> None:
    losers = [outcome for outcome in outcomes if isinstance(outcome, PeragoError)]
    assert len(outcomes) - len(losers) == 1, outcomes
    assert all(isinstance(loser, HeadMovedError) for loser in losers), losers

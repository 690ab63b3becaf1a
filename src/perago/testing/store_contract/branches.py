"""Branches: created if absent, listed, hidden, deleted."""

from __future__ import annotations

from functools import partial

import pytest

from perago.domain.errors import AlreadyExistsInStoreError, NotFoundInStoreError, StoreError
from perago.domain.ids import BranchName, RepositoryName
from perago.testing.store_contract.bench import MAIN, NOWHERE, StoreBench, race

_WORK = BranchName("work")


class BranchContract:
    """What the port says of branches."""

    def test_a_branch_begins_at_its_source(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1"})
        source = bench.head(repository)
        bench.commit(repository, MAIN, {"a": b"2"})
        bench.store.create_branch(repository, _WORK, source)
        assert bench.second.head(repository, _WORK).id == source

    def test_an_existing_branch_is_never_overwritten(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1"})
        first = bench.head(repository)
        second = bench.commit(repository, MAIN, {"a": b"2"}).id
        bench.store.create_branch(repository, _WORK, first)
        with pytest.raises(AlreadyExistsInStoreError, match=_WORK):
            bench.second.create_branch(repository, _WORK, second)
        assert bench.head(repository, _WORK) == first

    def test_of_racing_branch_creations_exactly_one_succeeds(self, bench: StoreBench) -> None:
        repository = bench.repository()
        sources = [bench.commit(repository, MAIN, {"a": bytes([n])}).id for n in range(6)]
        for number in range(4):
            branch = BranchName(f"raced-{number}")
            outcomes = race(
                [
                    partial(client.create_branch, repository, branch, source)
                    for client, source in zip(bench.clients(6), sources, strict=True)
                ]
            )
            (winner,) = [n for n, outcome in enumerate(outcomes) if outcome is None]
            losers = [outcome for outcome in outcomes if outcome is not None]
            assert all(isinstance(loser, AlreadyExistsInStoreError) for loser in losers), losers
            assert bench.head(repository, branch) == sources[winner]

    @pytest.mark.parametrize("name", ["x", "0", "_", "A-b_c-9", "perago-staging-1-2"])
    def test_a_legal_name_is_taken(self, bench: StoreBench, name: str) -> None:
        repository = bench.repository()
        bench.store.create_branch(repository, BranchName(name), bench.head(repository))
        assert name in [branch.name for branch in bench.store.branches(repository)]

    @pytest.mark.parametrize(
        "name",
        ["", "-x", "a.b", "a/b", "a b", "a:b", "a~1", "bräunlich", "x\n", "a\x00b", "../x", "*"],
    )
    def test_an_illegal_name_is_refused(self, bench: StoreBench, name: str) -> None:
        repository = bench.repository()
        before = bench.store.branches(repository, hidden=True)
        with pytest.raises(StoreError):
            bench.store.create_branch(repository, BranchName(name), bench.head(repository))
        assert bench.store.branches(repository, hidden=True) == before

    def test_branches_are_listed_sorted_and_hidden_ones_only_when_asked_for(
        self, bench: StoreBench
    ) -> None:
        repository = bench.repository()
        head = bench.head(repository)
        for name in ("zebra", "Ape", "mole"):
            bench.store.create_branch(repository, BranchName(name), head)
        for name in ("kept-back", "a-staging"):
            bench.store.create_branch(repository, BranchName(name), head, hidden=True)
        shown = [(branch.name, branch.hidden) for branch in bench.second.branches(repository)]
        assert shown == [("Ape", False), ("main", False), ("mole", False), ("zebra", False)]
        every = bench.second.branches(repository, hidden=True)
        names = [branch.name for branch in every]
        assert names == ["Ape", "a-staging", "kept-back", "main", "mole", "zebra"]
        assert {b.name for b in every if b.hidden} == {"a-staging", "kept-back"}
        assert {branch.head for branch in every} == {head}

    def test_a_hidden_branch_stays_hidden_and_is_otherwise_like_any_other(
        self, bench: StoreBench
    ) -> None:
        repository = bench.repository()
        bench.store.create_branch(repository, _WORK, bench.head(repository), hidden=True)
        commit = bench.commit(repository, _WORK, {"a": b"1"})
        assert bench.head(repository, _WORK) == commit.id
        assert _WORK not in [branch.name for branch in bench.store.branches(repository)]
        (hidden,) = [b for b in bench.store.branches(repository, hidden=True) if b.hidden]
        assert (hidden.name, hidden.head) == (_WORK, commit.id)

    def test_a_deleted_branch_is_gone_and_its_commits_stay_readable(
        self, bench: StoreBench
    ) -> None:
        repository = bench.repository()
        bench.store.create_branch(repository, _WORK, bench.head(repository))
        commit = bench.commit(repository, _WORK, {"a": b"1"})
        bench.store.delete_branch(repository, _WORK)
        assert [branch.name for branch in bench.second.branches(repository)] == [MAIN]
        with pytest.raises(NotFoundInStoreError, match=_WORK):
            bench.second.head(repository, _WORK)
        assert bench.second.read_commit(repository, commit.id) == commit
        assert bench.contents(repository, commit.id) == {"a": b"1"}

    def test_a_deleted_name_can_be_used_again(self, bench: StoreBench) -> None:
        repository = bench.repository()
        first = bench.head(repository)
        bench.store.create_branch(repository, _WORK, first, hidden=True)
        bench.commit(repository, _WORK, {"a": b"1"})
        bench.store.delete_branch(repository, _WORK)
        bench.store.create_branch(repository, _WORK, first)
        (branch,) = [b for b in bench.store.branches(repository) if b.name == _WORK]
        assert (branch.head, branch.hidden) == (first, False)

    def test_a_branch_or_source_that_is_not_there_is_named(self, bench: StoreBench) -> None:
        repository = bench.repository()
        store, head = bench.store, bench.head(repository)
        unknown = RepositoryName(f"unknown-{bench.suffix}")
        with pytest.raises(NotFoundInStoreError, match=NOWHERE):
            store.create_branch(repository, _WORK, NOWHERE)
        with pytest.raises(NotFoundInStoreError, match=unknown):
            store.create_branch(unknown, _WORK, head)
        with pytest.raises(NotFoundInStoreError, match=_WORK):
            store.delete_branch(repository, _WORK)
        with pytest.raises(NotFoundInStoreError, match=unknown):
            store.delete_branch(unknown, MAIN)
        with pytest.raises(NotFoundInStoreError, match=unknown):
            store.branches(unknown)
        with pytest.raises(NotFoundInStoreError, match=_WORK):
            store.head(repository, _WORK)
        with pytest.raises(NotFoundInStoreError, match=unknown):
            store.head(unknown, MAIN)

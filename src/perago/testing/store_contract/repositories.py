"""Repositories: made once, empty, listed."""

from __future__ import annotations

from functools import partial

import pytest

from perago.domain.errors import AlreadyExistsInStoreError, NotFoundInStoreError, StoreError
from perago.domain.ids import BranchName
from perago.domain.publication import Commit
from perago.testing.store_contract.bench import MAIN, StoreBench, race


class RepositoryContract:
    """What the port says of repositories."""

    def test_a_new_repository_stands_at_an_empty_parentless_commit(self, bench: StoreBench) -> None:
        name = bench.name("fresh")
        first = bench.store.create_repository(name)
        assert first.parents == ()
        assert bench.store.head(name, MAIN) == first
        assert bench.paths(name, first.id) == []

    def test_the_default_branch_has_the_given_name(self, bench: StoreBench) -> None:
        name = bench.name("trunk")
        first = bench.store.create_repository(name, branch=BranchName("trunk"))
        (branch,) = bench.store.branches(name, hidden=True)
        assert (branch.name, branch.head, branch.hidden) == ("trunk", first.id, False)

    def test_a_second_repository_of_the_name_is_refused_and_changes_nothing(
        self, bench: StoreBench
    ) -> None:
        name = bench.repository({"a": b"1"})
        branches = bench.store.branches(name, hidden=True)
        for branch in (MAIN, BranchName("other")):
            with pytest.raises(AlreadyExistsInStoreError, match=name):
                bench.second.create_repository(name, branch=branch)
        assert bench.store.branches(name, hidden=True) == branches

    def test_of_racing_repository_creations_exactly_one_succeeds(self, bench: StoreBench) -> None:
        name = bench.name("raced")
        outcomes = race(
            [partial(client.create_repository, name, branch=MAIN) for client in bench.clients(6)]
        )
        (winner,) = [outcome for outcome in outcomes if isinstance(outcome, Commit)]
        losers = [outcome for outcome in outcomes if outcome is not winner]
        assert all(isinstance(loser, AlreadyExistsInStoreError) for loser in losers), losers
        assert bench.store.head(name, MAIN) == winner

    def test_repositories_are_listed_sorted(self, bench: StoreBench) -> None:
        names = {bench.name(word) for word in ("zebra", "ape", "mole", "bat", "yak")}
        for name in names:
            bench.store.create_repository(name)
        listed = bench.second.repositories()
        assert names <= set(listed)
        assert listed == sorted(listed)

    def test_an_illegal_default_branch_makes_no_repository(self, bench: StoreBench) -> None:
        name = bench.name("refused")
        with pytest.raises(StoreError):
            bench.store.create_repository(name, branch=BranchName("not/legal"))
        assert name not in bench.store.repositories()

    def test_repositories_are_apart(self, bench: StoreBench) -> None:
        one, other = bench.repository({"a": b"1"}), bench.repository({"a": b"2"})
        assert bench.contents(one, bench.head(one)) == {"a": b"1"}
        with pytest.raises(NotFoundInStoreError):
            bench.store.read_commit(one, bench.head(other))

"""The last check of a publication: asked after all else, and what happens while it is asked."""

from __future__ import annotations

import pytest

from perago.domain.errors import HeadMovedError, LeaseLostError, StaleAttemptError
from perago.domain.ids import CommitId
from perago.ports import Fencing, TimeCheck, always_allowed
from perago.testing.store_contract.bench import MAIN, StoreBench
from perago.testing.store_contract.publication import judge


class LastCheckContract:
    """What the port says of `last_check`, and of the time check that it returns."""

    def test_the_last_check_is_asked_once_before_the_branch_moves(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1"})
        old = bench.head(repository)
        staged = bench.stage(repository, old, {"a": b"2"})
        asked: list[CommitId] = []
        timed: list[CommitId] = []

        def look() -> TimeCheck:
            asked.append(bench.head(repository))
            return lambda: timed.append(bench.head(repository))

        merged = bench.merge(staged, expected_head=old, last_check=look).id
        bench.relocate(repository, to=old, expected_head=merged, last_check=look)

        assert asked == timed == [old, merged]

    def test_what_the_last_check_raises_keeps_the_branch_where_it_is(
        self, bench: StoreBench
    ) -> None:
        repository = bench.repository({"a": b"1"})
        old = bench.head(repository)
        staged = bench.stage(repository, old, {"a": b"2"})

        def refuse() -> TimeCheck:
            raise StaleAttemptError("not any more")

        def be_late() -> None:
            raise LeaseLostError("too late")

        with pytest.raises(StaleAttemptError):
            bench.merge(staged, expected_head=old, last_check=refuse)
        with pytest.raises(StaleAttemptError):
            bench.relocate(repository, to=staged.commit, expected_head=old, last_check=refuse)
        with pytest.raises(LeaseLostError):
            bench.merge(staged, expected_head=old, last_check=lambda: be_late)
        with pytest.raises(LeaseLostError):
            bench.relocate(
                repository, to=staged.commit, expected_head=old, last_check=lambda: be_late
            )
        assert bench.head(repository) == old

    def test_a_commit_that_lands_during_the_last_check_is_never_relocated_away(
        self, bench: StoreBench
    ) -> None:
        repository = bench.repository({"a": b"1"})
        old = bench.head(repository)
        abandoned = bench.commit(repository, MAIN, {"a": b"abandoned"}).id
        staged = bench.stage(repository, old, {"a": b"2"})

        def take_long() -> TimeCheck:
            bench.commit(repository, MAIN, {"b": b"somebody else's"})
            return always_allowed()

        with pytest.raises(HeadMovedError) as caught:
            bench.relocate(
                repository, to=staged.commit, expected_head=abandoned, last_check=take_long
            )
        foreign = bench.head(repository)
        assert (caught.value.expected, caught.value.actual) == (abandoned, foreign)
        assert bench.contents(repository, foreign) == {"a": b"abandoned", "b": b"somebody else's"}

    def test_a_commit_that_lands_during_the_last_check_of_a_merge_stays_and_is_found_out(
        self, bench: StoreBench
    ) -> None:
        repository = bench.repository({"a": b"1"})
        old = bench.head(repository)
        staged = bench.stage(repository, old, {"a": b"2"})
        landed: list[CommitId] = []

        def take_long() -> TimeCheck:
            landed.append(bench.commit(repository, MAIN, {"b": b"somebody else's"}).id)
            return always_allowed()

        if bench.store.fencing is Fencing.ATOMIC:
            with pytest.raises(HeadMovedError) as caught:
                bench.merge(staged, expected_head=old, last_check=take_long)
            assert [caught.value.actual] == landed
        else:
            published = bench.merge(staged, expected_head=old, last_check=take_long)
            assert judge(bench, staged, published, old) is not None
        history = bench.store.log(repository, bench.head(repository))
        assert landed[0] in [commit.id for commit in history]

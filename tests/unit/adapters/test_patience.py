"""What is tried again, for how long, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from perago.adapters.lakefs.answers import damaged
from perago.adapters.patience import Patience, RetryAfter, TransientError, once
from perago.domain.errors import CorruptStoreError, NotFoundInStoreError, StoreUnavailableError


class Hours:
    """A clock that goes on only while somebody waits, and what was waited."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []

    def elapsed(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    @property
    def waited(self) -> float:
        return sum(self.waits)


@pytest.fixture
def hours() -> Hours:
    return Hours()


def patience(hours: Hours, seconds: float = 30.0) -> Patience:
    return Patience(seconds, elapsed=hours.elapsed, sleep=hours.sleep)


def failing(times: int, wait: float | None = None, *, is_reached: bool = True) -> Callable[[], int]:
    """A call that fails so often, then says how often it was made."""
    calls = 0

    def call() -> int:
        nonlocal calls
        calls += 1
        if calls <= times:
            raise TransientError(
                StoreUnavailableError("busy"), RetryAfter(wait), is_reached=is_reached
            )
        return calls

    return call


def for_ever(*, is_reached: bool = True) -> Callable[[], int]:
    return failing(1_000_000, is_reached=is_reached)


def test_what_fails_for_a_while_succeeds(hours: Hours) -> None:
    assert patience(hours).retry(failing(6)) == 7
    assert len(hours.waits) == 6


def test_what_goes_on_failing_fails_when_the_time_is_up(hours: Hours) -> None:
    with pytest.raises(StoreUnavailableError, match="busy"):
        patience(hours).retry(for_ever())
    assert 24 < hours.waited <= 30


def test_the_time_counts_from_the_first_failure_however_long_a_call_takes(hours: Hours) -> None:
    assert patience(hours).retry(slow(hours, failing(1))) == 2


def slow(hours: Hours, call: Callable[[], int]) -> Callable[[], int]:
    """A call that takes longer than all patience."""

    def slow() -> int:
        hours.now += 300
        return call()

    return slow


def test_the_least_tries_are_made_whatever_the_clock_says(hours: Hours) -> None:
    with pytest.raises(StoreUnavailableError):
        patience(hours).retry(slow(hours, failing(2)))

    assert patience(hours).retry(slow(hours, failing(2)), least_tries=3) == 3


def test_after_the_least_tries_the_clock_counts(hours: Hours) -> None:
    call = failing(3)
    with pytest.raises(StoreUnavailableError):
        patience(hours).retry(slow(hours, call), least_tries=3)
    assert call() == 4

    assert patience(hours).retry(failing(6), least_tries=3) == 7


@pytest.mark.parametrize(("seconds", "is_reached"), [(0, True), (30, False)])
def test_no_least_tries_without_patience_or_for_a_server_that_was_never_reached(
    hours: Hours, seconds: float, is_reached: bool
) -> None:
    call = slow(hours, for_ever(is_reached=is_reached))
    with pytest.raises(StoreUnavailableError):
        patience(hours, seconds).retry(call, least_tries=9)
    assert len(hours.waits) <= 1


def test_damage_is_told_also_where_other_failures_came_between(hours: Hours) -> None:
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise TransientError(StoreUnavailableError("busy"), RetryAfter())
        raise damaged(CorruptStoreError("not what was sent"))

    with pytest.raises(CorruptStoreError):
        patience(hours).retry(call)
    assert calls == 4


def test_who_calls_may_bring_another_way_to_wait(hours: Hours) -> None:
    waits: list[float] = []

    patience(hours).retry(failing(2), wait=waits.append)

    assert len(waits) == 2
    assert not hours.waits


def test_damage_that_stays_is_told_after_a_few_tries(hours: Hours) -> None:
    calls = 0

    def call() -> None:
        nonlocal calls
        calls += 1
        raise damaged(CorruptStoreError("not what was sent"))

    with pytest.raises(CorruptStoreError):
        patience(hours).retry(call)
    assert calls == 3


def test_without_patience_there_is_one_try(hours: Hours) -> None:
    call = failing(1)
    with pytest.raises(StoreUnavailableError):
        patience(hours, 0).retry(call)
    assert call() == 2
    assert not hours.waits


def test_a_server_that_was_never_reached_is_given_up_soon(hours: Hours) -> None:
    with pytest.raises(StoreUnavailableError):
        patience(hours).retry(for_ever(is_reached=False))
    assert 1 < hours.waited <= 3


def _found() -> str:
    return "found"


def _refused() -> str:
    raise NotFoundInStoreError("no")


def _busy() -> str:
    raise TransientError(StoreUnavailableError("busy"), RetryAfter())


@pytest.mark.parametrize("answer", [_found, _refused, _busy])
def test_a_server_that_answered_once_in_whatever_way_is_waited_for(
    hours: Hours, answer: Callable[[], str]
) -> None:
    waiting = patience(hours)
    calls = iter([answer])

    def answer_then_vanish() -> str:
        if (first := next(calls, None)) is not None:
            return first()
        raise TransientError(StoreUnavailableError("gone"), RetryAfter(), is_reached=False)

    for _ in range(2):
        with suppress(NotFoundInStoreError, StoreUnavailableError):
            waiting.retry(answer_then_vanish)
    assert hours.waited > 10


def test_waits_grow_and_are_random(hours: Hours) -> None:
    for _ in range(20):
        patience(hours, 100).retry(failing(7))
    rounds = [hours.waits[start : start + 7] for start in range(0, len(hours.waits), 7)]
    for number, limit in enumerate((0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0)):
        seen = {waited[number] for waited in rounds}
        assert len(seen) > 1
        assert all(limit / 2 <= wait <= limit for wait in seen)


def test_the_server_s_wish_is_honoured_up_to_a_bound(hours: Hours) -> None:
    patience(hours).retry(failing(1, wait=3.0))
    patience(hours).retry(failing(1, wait=3600.0))
    assert hours.waits == [3.0, 10.0]


def test_once_means_once() -> None:
    call = failing(1)
    with pytest.raises(StoreUnavailableError):
        once(call)
    assert call() == 2


def test_other_errors_are_not_tried_again(hours: Hours) -> None:
    with pytest.raises(NotFoundInStoreError):
        patience(hours).retry(_refused)
    assert not hours.waits

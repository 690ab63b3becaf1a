"""What is tried again, how often, and what is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perago.adapters.lakefs import retries
from perago.adapters.lakefs.answers import RetryAfter, TransientError
from perago.domain.errors import NotFoundInStoreError, StoreUnavailableError


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    return waited


def failing(times: int, wait: float | None = None) -> Callable[[], int]:
    """A call that fails so often, then says how often it was made."""
    calls = 0

    def call() -> int:
        nonlocal calls
        calls += 1
        if calls <= times:
            raise TransientError(StoreUnavailableError("busy"), RetryAfter(wait))
        return calls

    return call


def test_what_fails_for_a_while_succeeds(waits: list[float]) -> None:
    assert retries.with_retries(failing(retries.TRIES - 1)) == retries.TRIES
    assert len(waits) == retries.TRIES - 1


def test_what_goes_on_failing_fails(waits: list[float]) -> None:
    call = failing(retries.TRIES)
    with pytest.raises(StoreUnavailableError, match="busy"):
        retries.with_retries(call)
    assert call() == retries.TRIES + 1


def test_waits_grow_and_are_random(waits: list[float]) -> None:
    for _ in range(20):
        retries.with_retries(failing(retries.TRIES - 1))
    rounds = [waits[start : start + 4] for start in range(0, len(waits), 4)]
    for number, limit in enumerate((0.2, 0.4, 0.8, 1.6)):
        seen = {waited[number] for waited in rounds}
        assert len(seen) > 1
        assert all(limit / 2 <= wait <= limit for wait in seen)


def test_the_server_s_wish_is_honoured_up_to_a_bound(waits: list[float]) -> None:
    retries.with_retries(failing(1, wait=3.0))
    retries.with_retries(failing(1, wait=3600.0))
    assert waits == [3.0, 10.0]


def test_once_means_once(waits: list[float]) -> None:
    call = failing(1)
    with pytest.raises(StoreUnavailableError):
        retries.once(call)
    assert call() == 2
    assert not waits


def test_other_errors_are_not_tried_again(waits: list[float]) -> None:
    def call() -> None:
        raise NotFoundInStoreError("no")

    with pytest.raises(NotFoundInStoreError):
        retries.with_retries(call)
    assert not waits

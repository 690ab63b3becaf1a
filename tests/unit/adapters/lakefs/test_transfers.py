"""What becomes of many transfers when some of them fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from perago.adapters.lakefs.transfers import OnBytes, Transfers
from perago.adapters.patience import Patience, RetryAfter, TransientError
from perago.domain.errors import CorruptStoreError, StoreUnavailableError
from perago.testing.clock import FakeClock

_Result = TypeVar("_Result")


class QuickPatience(Patience):
    """Waits as long as it is told to, in no time."""

    def __init__(self, clock: FakeClock, seconds: float = 30) -> None:
        super().__init__(seconds, elapsed=clock.elapsed, sleep=clock.sleep)

    def retry(
        self,
        call: Callable[[], _Result],
        *,
        least_tries: int = 1,
        wait: Callable[[float], object] | None = None,
    ) -> _Result:
        return super().retry(call, least_tries=least_tries)


class Moved:
    """What was reported."""

    def __init__(self) -> None:
        self.objects = 0
        self.bytes = 0
        self._lock = threading.Lock()

    def __call__(self, objects: int, count: int) -> None:
        with self._lock:
            self.objects += objects
            self.bytes += count


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def moved() -> Moved:
    return Moved()


def busy(what: str = "busy", seconds: float | None = None) -> TransientError:
    return TransientError(StoreUnavailableError(what), RetryAfter(seconds))


def test_everything_is_transferred_once(clock: FakeClock, moved: Moved) -> None:
    seen: list[int] = []

    def transfer(item: int, on_bytes: OnBytes) -> None:
        seen.append(item)
        on_bytes(item)

    Transfers(4, QuickPatience(clock), moved).run(range(100), transfer, total=100)

    assert sorted(seen) == list(range(100))
    assert (moved.objects, moved.bytes) == (100, sum(range(100)))


def test_what_a_failed_try_moved_is_taken_back(clock: FakeClock, moved: Moved) -> None:
    reports: list[int] = []
    tries = 0

    def transfer(_item: str, on_bytes: OnBytes) -> None:
        nonlocal tries
        tries += 1
        on_bytes(3)
        on_bytes(4)
        reports.append(moved.bytes)
        if tries < 3:
            raise busy()

    Transfers(1, QuickPatience(clock), moved).run(["a"], transfer, total=1)

    assert reports == [7, 7, 7]
    assert (moved.objects, moved.bytes) == (1, 7)


def test_a_transfer_that_takes_longer_than_all_patience_survives_two_cuts(
    clock: FakeClock, moved: Moved
) -> None:
    tries = 0

    def transfer(_item: str, _on_bytes: OnBytes) -> None:
        nonlocal tries
        tries += 1
        clock.advance(300)
        if tries < 3:
            raise busy()

    Transfers(1, QuickPatience(clock), moved).run(["a"], transfer, total=1)

    assert moved.objects == 1


def test_several_objects_that_failed_are_named(clock: FakeClock, moved: Moved) -> None:
    def transfer(item: str, _on_bytes: OnBytes) -> None:
        if item != "good":
            raise busy(f"no {item}")

    with pytest.raises(StoreUnavailableError) as caught:
        Transfers(2, QuickPatience(clock), moved).run(["a", "good", "b"], transfer, total=3)

    assert caught.value.message.startswith("2 of 3 objects could not be transferred: ")
    assert {"no a", "no b"} == set(caught.value.message.partition(": ")[2].split("; "))
    assert moved.objects == 1


def test_after_a_handful_of_failed_objects_the_rest_is_given_up(
    clock: FakeClock, moved: Moved
) -> None:
    seen: set[int] = set()

    def transfer(item: int, _on_bytes: OnBytes) -> None:
        seen.add(item)
        raise busy(f"no {item}")

    with pytest.raises(StoreUnavailableError) as caught:
        Transfers(1, QuickPatience(clock), moved).run(range(100), transfer, total=100)

    assert seen == set(range(5))
    assert "5 or more of 100 objects" in caught.value.message
    assert "no 0; no 1; no 2; no 3; no 4" in caught.value.message


def test_an_object_is_named_once_however_many_of_its_parts_failed(
    clock: FakeClock, moved: Moved
) -> None:
    parts = [("big", number) for number in range(40)] + [("small", 0)]
    all_failing = threading.Barrier(8, timeout=60)
    tried: set[tuple[str, int]] = set()

    def transfer(part: tuple[str, int], _on_bytes: OnBytes) -> None:
        if part[0] == "big":
            if part not in tried:
                tried.add(part)
                all_failing.wait()
            raise busy(f"no {part[0]}")

    with pytest.raises(StoreUnavailableError) as caught:
        Transfers(8, QuickPatience(clock), moved).run(
            parts, transfer, total=2, object_of=lambda part: part[0]
        )

    assert caught.value.message == "1 of 2 objects could not be transferred: no big"
    assert len(tried) == 8, "a part that begins when its object is lost"
    assert moved.objects == 1


def test_an_error_stops_those_that_move_bytes(clock: FakeClock, moved: Moved) -> None:
    under_way = threading.Event()

    def transfer(item: str, on_bytes: OnBytes) -> None:
        if item == "broken":
            assert under_way.wait(60)
            raise CorruptStoreError("broken")
        while True:
            on_bytes(1)
            under_way.set()

    with pytest.raises(CorruptStoreError, match="broken"):
        Transfers(2, QuickPatience(clock), moved).run(["endless", "broken"], transfer, total=2)


def test_an_error_stops_those_that_wait_to_try_again(moved: Moved) -> None:
    tries = 0
    has_failed = threading.Event()

    def transfer(item: str, _on_bytes: OnBytes) -> None:
        nonlocal tries
        if item == "broken":
            assert has_failed.wait(60)
            raise CorruptStoreError("broken")
        tries += 1
        if tries == 1:
            has_failed.set()
            raise busy(seconds=10)

    with pytest.raises(CorruptStoreError, match="broken"):
        Transfers(2, Patience(3600), moved).run(["waiting", "broken"], transfer, total=2)

    assert tries == 1


def test_nothing_begins_after_an_error(clock: FakeClock, moved: Moved) -> None:
    seen: list[int] = []

    def transfer(item: int, _on_bytes: OnBytes) -> None:
        seen.append(item)
        raise CorruptStoreError("broken")

    with pytest.raises(CorruptStoreError):
        Transfers(1, QuickPatience(clock), moved).run(range(9), transfer, total=9)

    assert seen == [0]

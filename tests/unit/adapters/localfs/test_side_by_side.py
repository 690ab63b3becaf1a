"""Work on many items at once: what ends it, and what is left when it ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from perago.adapters.localfs.side_by_side import SideBySide


def test_every_item_is_worked_on_once_and_no_item_is_drawn_before_its_time() -> None:
    drawn: list[int] = []
    done: list[int] = []

    def items() -> Iterator[int]:
        for number in range(50):
            drawn.append(number)
            yield number

    def work(item: int) -> None:
        assert len(drawn) - len(done) <= 3
        done.append(item)

    SideBySide(2).run(items(), work)

    assert sorted(done) == drawn == list(range(50))


def test_nothing_to_do_is_fine() -> None:
    SideBySide(0).run([], pytest.fail)


def test_items_that_are_nothing_are_items_too() -> None:
    done: list[None] = []

    SideBySide(1).run([None, None], done.append)

    assert len(done) == 2


def test_there_are_no_more_threads_than_items() -> None:
    both = threading.Barrier(2, timeout=60)
    threads: set[str] = set()

    def work(_item: int) -> None:
        threads.add(threading.current_thread().name)
        both.wait()

    SideBySide(16).run(range(2), work)

    assert len(threads) == 2


@pytest.mark.parametrize("threads", [1, 4])
def test_the_first_error_is_raised_when_all_have_ended(threads: int) -> None:
    runner = SideBySide(threads)
    running = 0
    lock = threading.Lock()

    def work(item: int) -> None:
        nonlocal running
        with lock:
            running += 1
        try:
            if item == 0:
                raise ValueError("first")
            while True:
                runner.check()
                runner.wait(60)
        finally:
            with lock:
                running -= 1

    with pytest.raises(ValueError, match="first"):
        runner.run(range(100), work)

    assert running == 0


def test_an_error_of_the_items_themselves_is_raised_and_stops_the_rest() -> None:
    runner = SideBySide(2)

    def items() -> Iterator[int]:
        yield 1
        raise LookupError("no more")

    def work(_item: int) -> None:
        while True:
            runner.check()
            runner.wait(60)

    with pytest.raises(LookupError):
        runner.run(items(), work)


def test_an_interrupted_caller_stops_the_work() -> None:
    runner = SideBySide(3)

    def items() -> Iterator[int]:
        yield 1
        raise KeyboardInterrupt

    def work(_item: int) -> None:
        while True:
            runner.check()
            runner.wait(60)

    with pytest.raises(KeyboardInterrupt):
        runner.run(items(), work)


def test_who_is_stopped_from_outside_raises_nothing() -> None:
    runner = SideBySide(1)
    done: list[int] = []

    def work(item: int) -> None:
        done.append(item)
        runner.stop()

    runner.run(range(9), work)

    assert done == [0]

import threading
from datetime import UTC, datetime, timedelta

from perago.testing.clock import FakeClock


def test_it_stands_still_by_itself() -> None:
    clock = FakeClock()
    assert clock.now() == clock.now()
    assert clock.elapsed() == 0


def test_advancing_moves_both_clocks() -> None:
    start = datetime(2013, 1, 1, tzinfo=UTC)
    clock = FakeClock(start)
    clock.advance(1.5)
    assert clock.now() == start + timedelta(seconds=1.5)
    assert clock.elapsed() == 1.5


def test_sleeping_takes_as_long_as_it_says() -> None:
    clock = FakeClock()
    clock.sleep(60)
    clock.sleep(-1)
    assert clock.elapsed() == 60


def test_the_shortest_sleep_still_takes_time() -> None:
    clock = FakeClock()
    clock.sleep(1e-12)
    assert clock.elapsed() > 0


def test_no_second_is_lost_between_threads() -> None:
    clock = FakeClock()

    def sleep_often() -> None:
        for _ in range(100):
            clock.sleep(1)

    threads = [threading.Thread(target=sleep_often) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.elapsed() == 800

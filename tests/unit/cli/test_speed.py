import threading
from io import StringIO

import pytest
from rich.console import Console

from perago.cli.output import Output
from perago.cli.speed import Moved, TransferCounter, showing_transfer
from perago.testing import FakeClock


@pytest.mark.parametrize(
    ("moved", "words"),
    [
        (Moved(), "0 objects, 0 B"),
        (Moved(objects=1, size=10, seconds=0.5), "1 object, 10 B"),
        (Moved(objects=3, size=10, seconds=2), "3 objects, 10 B in 2.00 s (1.5 objects/s, 5 B/s)"),
        (
            Moved(objects=1000, size=10_240_000, seconds=1.25),
            "1000 objects, 10.2 MB in 1.25 s (800 objects/s, 8.2 MB/s)",
        ),
    ],
)
def test_a_speed_is_told_once_it_means_something(moved: Moved, words: str) -> None:
    assert moved.describe() == words


def test_a_transfer_for_programs() -> None:
    assert Moved(objects=3, size=10, seconds=2).as_json() == {
        "objects": 3,
        "bytes": 10,
        "seconds": 2,
        "objects_per_second": 1.5,
        "bytes_per_second": 5,
    }
    assert Moved().as_json()["bytes_per_second"] is None
    assert Moved(objects=1).speed == ""


def test_a_counter_counts_from_many_threads_up_to_the_last_object() -> None:
    clock = FakeClock()
    counter = TransferCounter(clock.elapsed)
    clock.advance(2)

    def move() -> None:
        for _ in range(1000):
            counter(1, 5)

    threads = [threading.Thread(target=move) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clock.advance(6)

    assert counter.moved == Moved(objects=4000, size=20_000, seconds=2)
    assert counter.describe_now() == "4000 objects, 20.0 kB, 500 objects/s, 2.5 kB/s"


def test_nothing_moved_yet_has_no_words() -> None:
    assert TransferCounter(FakeClock().elapsed).describe_now() == ""


def test_a_terminal_sees_the_transfer_while_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen, clock, output = StringIO(), FakeClock(), Output()
    output.console = Console(file=screen, force_terminal=True, width=100, color_system=None)

    with showing_transfer(output, "exporting", clock.elapsed) as counter:
        clock.advance(2)
        counter(20, 3_000_000)

    assert "exporting 20 objects, 3.0 MB, 10 objects/s, 1.5 MB/s" in screen.getvalue()


def test_a_pipe_sees_nothing_of_it(capfd: pytest.CaptureFixture[str]) -> None:
    with showing_transfer(Output(), "exporting", FakeClock().elapsed) as counter:
        counter(1, 1)

    assert capfd.readouterr().out == ""

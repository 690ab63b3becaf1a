import subprocess
import sys
from datetime import UTC, timedelta

from perago.adapters.localfs.clock import SystemClock


def test_now_is_aware_and_in_utc() -> None:
    now = SystemClock().now()
    assert now.tzinfo == UTC
    assert now.utcoffset() == timedelta()


def test_elapsed_goes_on_while_sleeping() -> None:
    clock = SystemClock()
    before = clock.elapsed()
    clock.sleep(0.01)
    assert clock.elapsed() - before >= 0.01


def test_a_sleep_of_less_than_nothing_is_none() -> None:
    SystemClock().sleep(-1)


def test_elapsed_is_comparable_between_processes() -> None:
    clock = SystemClock()
    before = clock.elapsed()
    script = "from perago.adapters.localfs.clock import SystemClock; print(SystemClock().elapsed())"
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert before <= float(answer.stdout) <= clock.elapsed()

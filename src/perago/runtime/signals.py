"""Signals as requests: what a worker does when it is told to stop."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_signals(on_signal: Callable[[], None]) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM call `on_signal`, every time, until the block ends.

    It runs inside the handler: it may set flags and call `os.write`, and nothing that takes a
    lock.
    """

    def handle(_number: int, _frame: FrameType | None) -> None:
        on_signal()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

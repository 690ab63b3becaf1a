"""A clock that goes only when it is told to, or slept on."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta

_BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)


class FakeClock:
    """The `Clock` port on virtual time: sleeping returns at once and has taken that long."""

    def __init__(self, start: datetime = _BEGINNING) -> None:
        self._start = start
        self._passed = timedelta()
        self._lock = threading.Lock()

    def now(self) -> datetime:
        with self._lock:
            return self._start + self._passed

    def elapsed(self) -> float:
        with self._lock:
            return self._passed.total_seconds()

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            # At least the smallest step: a wait of 1e-12 s that took no time would never end.
            self.advance(max(seconds, 1e-6))
        time.sleep(0)  # whoever waits in a loop lets the other threads have their turn

    def advance(self, seconds: float) -> None:
        """Let that much time pass."""
        with self._lock:
            self._passed += timedelta(seconds=seconds)

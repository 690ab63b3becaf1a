"""The machine's clocks."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime

if sys.platform == "linux":
    # CLOCK_MONOTONIC stands still while the machine sleeps; CLOCK_BOOTTIME goes on.
    _SUSPENDED_TIME_INCLUDED = time.CLOCK_BOOTTIME
else:
    # On macOS it is CLOCK_MONOTONIC that goes on during sleep. Not `time.monotonic`: Python reads
    # mach_absolute_time there, which does not.
    _SUSPENDED_TIME_INCLUDED = time.CLOCK_MONOTONIC


class SystemClock:
    """The `Clock` port on the operating system."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def elapsed(self) -> float:
        return time.clock_gettime(_SUSPENDED_TIME_INCLUDED)

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))

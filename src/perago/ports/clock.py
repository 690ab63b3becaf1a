"""Time, injected so that tests can skip it."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """The two clocks of the protocol, and waiting."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC: for records and the orchestrator's time-outs."""
        ...

    def elapsed(self) -> float:
        """Seconds since some fixed moment, suspended time included: for leases.

        A laptop that sleeps, or a paused virtual machine, must not stretch a lease. The value
        is comparable between the processes of one machine.
        """
        ...

    def sleep(self, seconds: float) -> None:
        """Wait that long."""
        ...

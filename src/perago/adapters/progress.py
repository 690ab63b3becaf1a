"""How a long step says that it is still under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Takes a line of text when a step begins, and again every so many seconds while it lasts."""

    say: Callable[[str], None]
    every_seconds: float = 15.0

    def going_on(self, doing: str, seconds: float) -> None:
        """Say that a step takes its time."""
        self.say(f"{doing}, {seconds:.0f} s")

    def while_waiting(self, doing: str) -> Callable[[float], None]:
        """What says so at once and then now and again; it is told how long the wait is already."""
        said: float | None = None

        def look(seconds: float) -> None:
            nonlocal said
            if said is None or seconds - said >= self.every_seconds:
                said = seconds
                self.going_on(doing, seconds)

        return look

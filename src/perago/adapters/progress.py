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

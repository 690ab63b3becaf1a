"""How much a transfer moved, and how fast."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from perago.cli.output import Output, plural, show_bytes, show_seconds
from perago.domain.outcome import JsonObject

_REDRAWS_PER_SECOND = 10

_TELLING_SECONDS = 1.0
"""A shorter transfer says nothing about speed: most of it was waiting for the first answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Objects and bytes that were moved, and how long that took."""

    objects: int = 0
    size: int = 0
    seconds: float = 0.0

    def plus(self, objects: int, size: int) -> Moved:
        """With some more moved."""
        return Moved(objects=self.objects + objects, size=self.size + size, seconds=self.seconds)

    def after(self, seconds: float) -> Moved:
        """The same, after so long."""
        return Moved(objects=self.objects, size=self.size, seconds=seconds)

    @property
    def is_telling(self) -> bool:
        """Whether it took long enough for its speed to mean something."""
        return self.objects > 0 and self.seconds >= _TELLING_SECONDS

    @property
    def speed(self) -> str:
        """`820 objects/s, 8.4 MB/s`."""
        if self.seconds <= 0:
            return ""
        objects = self.objects / self.seconds
        shown = f"{objects:.0f}" if objects >= 10 else f"{objects:.1f}"
        return f"{shown} objects/s, {show_bytes(int(self.size / self.seconds))}/s"

    def __str__(self) -> str:
        return f"{plural(self.objects, 'object')}, {show_bytes(self.size)}"

    def describe(self) -> str:
        """What was moved and, where that means something, how fast."""
        if not self.is_telling:
            return str(self)
        return f"{self} in {show_seconds(self.seconds)} ({self.speed})"

    def as_json(self) -> JsonObject:
        """For programs."""
        seconds = self.seconds
        return {
            "objects": self.objects,
            "bytes": self.size,
            "seconds": round(seconds, 6),
            "objects_per_second": round(self.objects / seconds, 3) if seconds > 0 else None,
            "bytes_per_second": round(self.size / seconds, 3) if seconds > 0 else None,
        }


NOTHING_MOVED = Moved()


class TransferCounter:
    """Adds up what a transfer moves; called from its threads."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._began = now()
        self._lock = threading.Lock()
        self._moved = NOTHING_MOVED

    def __call__(self, objects: int, size: int) -> None:
        with self._lock:
            self._moved = self._moved.plus(objects, size).after(self._now() - self._began)

    @property
    def moved(self) -> Moved:
        """What was moved so far; the time is that of the last object."""
        with self._lock:
            return self._moved

    def describe_now(self) -> str:
        """What was moved so far, and how fast as of now."""
        moved = self.moved.after(self._now() - self._began)
        return f"{moved}, {moved.speed}" if moved.objects else ""


@contextmanager
def showing_transfer(
    output: Output, verb: str, now: Callable[[], float]
) -> Iterator[TransferCounter]:
    """Count a transfer, and show it on a terminal while it goes on."""
    counter = TransferCounter(now)
    if not output.is_live:
        yield counter
        return
    spinner = Spinner("dots", style="cyan")

    def draw() -> Spinner:
        spinner.update(text=Text(f"{verb} {counter.describe_now()}".rstrip()))
        return spinner

    with Live(
        get_renderable=draw,
        console=output.console,
        refresh_per_second=_REDRAWS_PER_SECOND,
        transient=True,
    ):
        yield counter

"""Waits until one of several descriptors has something to say."""

from __future__ import annotations

import math
import select
from collections.abc import Sequence


class Waiting:
    """What a loop waits for; told anew at each turn, and set up again only when it changed.

    `multiprocessing.connection.wait` sets up everything each time, which is a large part of what a
    turn of a busy loop costs.
    """

    def __init__(self) -> None:
        self._descriptors: tuple[int, ...] = ()
        self._poll = select.poll()

    def wait(self, descriptors: Sequence[int], seconds: float) -> set[int]:
        """Those that can be read, or whose other end is gone; none when the time is over."""
        if tuple(descriptors) != self._descriptors:
            self._descriptors = tuple(descriptors)
            self._poll = select.poll()
            for descriptor in self._descriptors:
                self._poll.register(descriptor, select.POLLIN)
        return {descriptor for descriptor, _ in self._poll.poll(math.ceil(seconds * 1000))}

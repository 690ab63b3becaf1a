"""Times and announces the phases of one attempt, and remembers which one is under way."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from perago.domain.outcome import Direction, Phase, direction_of
from perago.ports import AttemptObserver, Clock

_log = logging.getLogger(__name__)


class PhaseRecorder:
    """The phase clock of one attempt."""

    def __init__(self, clock: Clock, observer: AttemptObserver) -> None:
        self._clock = clock
        self._observer = observer
        self._objects = dict.fromkeys(Direction, 0)
        self._bytes = dict.fromkeys(Direction, 0)
        self.current = Phase.VALIDATE
        self.seconds: dict[Phase, float] = {}

    @contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Run a block as this phase; a phase entered twice adds up."""
        self.current = phase
        self._observer.phase_started(phase)
        began = self._clock.elapsed()
        try:
            yield
        finally:
            took = self._clock.elapsed() - began
            self.seconds[phase] = self.seconds.get(phase, 0.0) + took
            self._observer.phase_ended(phase, took)
            _log.debug("phase %s took %.3f s", phase, took)

    def count_transfer(self, objects: int, size: int) -> None:
        """Take note of objects and bytes moved; called from transfer threads."""
        direction = direction_of(self.current)
        self._objects[direction] += objects
        self._bytes[direction] += size
        self._observer.transferred(objects, size)

    def summary(self) -> str:
        """One line with what the attempt cost."""
        phases = " ".join(f"{phase}={seconds:.3f}s" for phase, seconds in self.seconds.items())
        moved = " ".join(
            f"{way}={self._objects[way]} objects, {self._bytes[way]} bytes" for way in Direction
        )
        return f"{phases} {moved}"

"""The time by which the engine decides: steady while the machine is up, near the wall clock.

Invariant: within one boot of the machine no setting of its clock makes anything time out, or keeps
it from timing out. The engine's time is `Clock.elapsed` plus an offset that is kept beside the
instances, so all processes of a home have the same. Where the wall clock was set, the offset
follows, and with it what is still open moves in one transaction: new moments are right to read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from perago.adapters.embedded.orchestrator.engine.clock_steps import move_open_moments
from perago.adapters.embedded.orchestrator.instance_store import InstanceStore, KeptClock
from perago.ports.clock import Clock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_STEP = timedelta(seconds=1)
"""A smaller difference is the clock's being slewed, or this process's being slow."""
_QUICK_SECONDS = 0.01
_LOOKS = 100
_ALL = 2**63 - 1


@dataclass(slots=True)
class EngineTime:
    """The engine's time in one process. `boot` names the machine's current boot."""

    clock: Clock
    boot: str
    _known: KeptClock | None = None

    @contextmanager
    def reading(self, instances: InstanceStore) -> Iterator[datetime]:
        """A consistent view, and what time it is in it."""
        self._keep_pace(instances)
        with instances.reading():
            yield self._tell(instances)

    @contextmanager
    def writing(self, instances: InstanceStore) -> Iterator[datetime]:
        """The same, alone among all writers."""
        self._keep_pace(instances)
        with instances.writing():
            yield self._tell(instances)

    def _tell(self, instances: InstanceStore) -> datetime:
        self._known = kept = instances.clock()
        assert kept is not None, "the first look at the time keeps one"
        return self._moment(kept)

    def _moment(self, kept: KeptClock) -> datetime:
        elapsed = timedelta(seconds=self.clock.elapsed())
        return _EPOCH + kept.offset_microseconds * _MICROSECOND + elapsed

    def _keep_pace(self, instances: InstanceStore) -> None:
        """Follow the wall clock, where it was set since anybody looked."""
        if self._known is not None and not self._is_off(self._known):
            return
        with instances.writing():
            kept = instances.clock()
            if kept is None or self._is_off(kept):
                self._follow(instances, kept)

    def _is_off(self, kept: KeptClock) -> bool:
        step = (self._measure() - kept.offset_microseconds) * _MICROSECOND
        return kept.boot != self.boot or abs(step) >= _STEP

    def _follow(self, instances: InstanceStore, kept: KeptClock | None) -> None:
        offset = self._measure()
        instances.put_clock(KeptClock(boot=self.boot, offset_microseconds=offset))
        if kept is None or kept.boot != self.boot:
            return  # how long the machine was off, the wall clock alone can tell
        step = (offset - kept.offset_microseconds) * _MICROSECOND
        for workflow_id in instances.newest(_ALL, unfinished=True, name=None):
            before = instances.instance(workflow_id)
            assert before is not None
            instances.update(before, move_open_moments(before, step))

    def _measure(self) -> int:
        """The wall clock at the moment from which `elapsed` counts, in microseconds."""
        before, now = self.clock.elapsed(), self.clock.now()
        for _ in range(_LOOKS):
            if self.clock.elapsed() - before < _QUICK_SECONDS:
                break
            # This process slept between its two looks.
            before, now = self.clock.elapsed(), self.clock.now()
        return (now - _EPOCH - timedelta(seconds=before)) // _MICROSECOND

"""An execution whose events are told to a handler, as a supervisor tells them."""

from __future__ import annotations

from perago.domain.changes import ChangeCount
from perago.domain.events import (
    AttemptEnded,
    AttemptStarted,
    AttemptTally,
    Event,
    EventHandler,
    ExecutorDied,
    HeartbeatFailed,
    LeaseLost,
    PhaseEnded,
    PhaseStarted,
    Progressed,
    SparkProgressed,
    Transferred,
)
from perago.domain.execution import Execution
from perago.domain.outcome import Completed, Outcome, Phase
from perago.domain.spark_progress import SparkProgress
from perago.ports import Clock
from perago.testing import FakeClock


class ToldAttempt:
    """Keeps the tally; `clock` says how long the attempt takes."""

    def __init__(
        self, handler: EventHandler, execution: Execution, clock: Clock | None = None
    ) -> None:
        self._handler = handler
        self._clock = clock or FakeClock()
        self._attempt = execution.attempt
        self.tally = AttemptTally(execution=execution)
        self._began = self._clock.elapsed()

    def start(self) -> None:
        self._began = self._clock.elapsed()
        self._handler.handle(AttemptStarted(execution=self.tally.execution))

    def enter(self, phase: Phase) -> None:
        self.tally.phase = phase
        self._handler.handle(PhaseStarted(attempt=self._attempt, phase=phase))

    def leave(self, seconds: float) -> None:
        phase = self.tally.phase
        self.tally.leave(phase, seconds)
        self._handler.handle(PhaseEnded(attempt=self._attempt, phase=phase, seconds=seconds))

    def move(self, objects: int, size: int) -> None:
        direction = self.tally.move(objects, size)
        self._handler.handle(
            Transferred(attempt=self._attempt, direction=direction, objects=objects, size=size)
        )

    def say(self, message: str, fraction: float | None = None) -> None:
        self._handler.handle(Progressed(attempt=self._attempt, message=message, fraction=fraction))

    def say_spark(self, progress: SparkProgress, line: str | None) -> None:
        self._handler.handle(SparkProgressed(attempt=self._attempt, progress=progress, line=line))

    def miss_heartbeat(self, reason: str) -> None:
        self._handler.handle(HeartbeatFailed(attempt=self._attempt, reason=reason))

    def lose_lease(self, reason: str) -> None:
        self._handler.handle(LeaseLost(attempt=self._attempt, reason=reason))

    def die(self, how: str) -> None:
        self._handler.handle(ExecutorDied(attempt=self._attempt, phase=self.tally.phase, how=how))

    def end(self, outcome: Outcome | None, changes: ChangeCount | None = None) -> None:
        self.tally.changes = changes
        self._handler.handle(
            AttemptEnded(
                attempt=self._attempt,
                outcome=outcome,
                tally=self.tally,
                seconds=self._clock.elapsed() - self._began,
            )
        )


class Recorder:
    """An `EventHandler` that remembers all."""

    def __init__(self) -> None:
        self.heard: list[Event] = []

    def handle(self, event: Event) -> None:
        self.heard.append(event)


def every_event_of(execution: Execution) -> list[Event]:
    """One event of each kind that is about an attempt."""
    recorder = Recorder()
    told = ToldAttempt(recorder, execution)
    told.start()
    told.enter(Phase.BODY)
    told.move(1, 10)
    told.say("half", 0.5)
    told.say_spark(SparkProgress(jobs=1), "Spark: 1 job")
    told.leave(1.0)
    told.miss_heartbeat("no answer")
    told.lose_lease("stale")
    told.die("exit code 1")
    told.end(Completed(output={}), ChangeCount(written=1, deleted=2))
    return recorder.heard

"""Takes what executors say, and acts on it.

Invariant: events about an attempt are told in the order of its phases, each once, whether its
executor said so or was only seen to be there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from perago.domain.errors import EnvironmentUnfitError
from perago.domain.outcome import Completed, Phase
from perago.ports import Clock
from perago.runtime.deaths import DeathRecord
from perago.runtime.events import WorkerEvents
from perago.runtime.intake import Intake
from perago.runtime.messages import (
    AttemptEnded,
    FromAttempt,
    FromExecutor,
    PhaseEnded,
    PhaseStarted,
    Progressed,
    Ready,
    SparkProgressed,
    Transferred,
    Unfit,
)
from perago.runtime.report_queue import ReportQueue
from perago.runtime.shared_lease import PHASES
from perago.runtime.slot import Assignment, Slot
from perago.runtime.task_log import TaskLog

_MESSAGES_PER_TURN = 100


class Hearing:
    """The supervisor's ear; `ask_soon` is called when an attempt may be polled for."""

    def __init__(
        self,
        clock: Clock,
        *,
        events: WorkerEvents,
        intake: Intake,
        reports: ReportQueue,
        task_log: TaskLog,
        deaths: DeathRecord,
        ask_soon: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._events = events
        self._intake = intake
        self._reports = reports
        self._task_log = task_log
        self._deaths = deaths
        self._ask_soon = ask_soon
        self.was_anybody_ready = False
        """Whether an executor ever came so far as to wait for work."""

    def take(self, slot: Slot) -> None:
        """Take what there is, up to a bound: a talkative body must not keep the loop busy."""
        for _ in range(_MESSAGES_PER_TURN):
            if not self._take_piece(slot):
                return

    def take_last(self, slot: Slot) -> None:
        """Take all that an executor had said before its end, and where it was when it ended."""
        slot.is_gone = True  # what it says last makes no room in it
        while self._take_piece(slot):
            pass
        if slot.assignment is not None and slot.cell is not None:
            self._enter(slot.assignment, slot.cell.phase)

    def look(self, slot: Slot) -> None:
        """See where an attempt is that was expected to be over, and has said nothing yet."""
        assignment, cell = slot.assignment, slot.cell
        if assignment is not None and cell is not None and assignment.told_phase is None:
            self._enter(assignment, cell.phase)
            self._intake.fill()  # what was polled for its slot need not wait for it

    def _take_piece(self, slot: Slot) -> bool:
        """Take one piece of what was said; whether there was one."""
        messages = slot.receive()
        for message in messages:
            self._handle(slot, message)
        return bool(messages)

    def _handle(self, slot: Slot, message: FromExecutor) -> None:
        if isinstance(message, Unfit):
            raise EnvironmentUnfitError(f"an executor cannot be built: {message.reason}")
        if isinstance(message, Ready):
            slot.is_ready = self.was_anybody_ready = True
            self._intake.fill()
            self._ask_soon()
        elif slot.assignment is not None:
            self._handle_attempt(slot, slot.assignment, message)

    def _handle_attempt(self, slot: Slot, assignment: Assignment, message: FromAttempt) -> None:
        attempt = assignment.attempt
        match message:
            case PhaseStarted(phase=phase):
                self._enter(assignment, phase)
                if phase is Phase.REPORT:
                    self._ask_soon()
            case PhaseEnded(phase=phase, seconds=took):
                # Of a phase that was passed over, only its end would be told.
                if not _is_later(assignment.phase, phase):
                    self._events.phase_ended(attempt, phase, took)
            case Transferred(objects=objects, size=size):
                self._events.transferred(attempt, objects, size)
            case Progressed(message=text, fraction=fraction):
                self._events.progressed(attempt, text, fraction)
                self._task_log.add(attempt, text)
            case SparkProgressed(progress=progress, line=line):
                self._events.spark_progressed(attempt, progress, line)
                if line is not None:
                    self._task_log.add(attempt, line)
            case AttemptEnded():
                self._end(slot, assignment, message)
            case _:
                assert_never(message)

    def _enter(self, assignment: Assignment, phase: Phase) -> None:
        if assignment.told_phase is None or _is_later(phase, assignment.told_phase):
            assignment.phase = assignment.told_phase = phase
            self._events.phase_started(assignment.attempt, phase)

    def _end(self, slot: Slot, assignment: Assignment, end: AttemptEnded) -> None:
        attempt, now = assignment.attempt, self._clock.elapsed()
        if not end.is_reported:
            self._reports.add(attempt, end.outcome)
        slot.assignment = None
        slot.deaths_in_a_row = 0
        slot.attempts_run += 1
        slot.last_used = now
        if isinstance(end.outcome, Completed):
            self._intake.learn(attempt.task_name, now - assignment.began)
        self._deaths.forgive(attempt)
        if end.changes is not None:
            self._events.changes_found(attempt, end.changes)
        self._events.attempt_ended(attempt, end.outcome)
        if slot.is_used_up:
            slot.retire(now)
        self._intake.fill()
        self._ask_soon()


def _is_later(phase: Phase, other: Phase) -> bool:
    return PHASES.index(phase) > PHASES.index(other)

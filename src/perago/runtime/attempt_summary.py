"""One log line for each attempt that ended: how, how long, and what it moved and changed.

Told by the supervisor's side, so that an attempt whose executor died has one as well.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from perago.domain.attempt import Attempt
from perago.domain.changes import ChangeCount
from perago.domain.execution import Execution
from perago.domain.ids import TaskId
from perago.domain.outcome import (
    Completed,
    Direction,
    JsonObject,
    JsonValue,
    Outcome,
    Phase,
    direction_of,
    read_ref,
)
from perago.ports import Clock
from perago.runtime.events import IgnoredEvents
from perago.runtime.log_context import about

_log = logging.getLogger("perago.attempt")

GIVEN_UP = "GIVEN_UP"
"""The status of an attempt about which somebody else decides: its lease was lost."""

_MAX_REASON = 500


@dataclass(slots=True, kw_only=True)
class _Tally:
    """What one attempt cost so far."""

    execution: Execution
    began: float
    phase: Phase = Phase.VALIDATE
    phases: dict[Phase, float] = field(default_factory=dict)
    objects: dict[Direction, int] = field(default_factory=lambda: dict.fromkeys(Direction, 0))
    size: dict[Direction, int] = field(default_factory=lambda: dict.fromkeys(Direction, 0))
    changes: ChangeCount | None = None

    def moved(self, direction: Direction) -> JsonObject:
        """Objects and bytes in one direction."""
        return {"objects": self.objects[direction], "bytes": self.size[direction]}


class AttemptSummaries(IgnoredEvents):
    """The `WorkerEvents` that become summary lines."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: dict[TaskId, _Tally] = {}

    def execution_began(self, execution: Execution) -> None:
        """Begin to count."""
        self._running[execution.attempt.task_id] = _Tally(
            execution=execution, began=self._clock.elapsed()
        )

    def phase_started(self, attempt: Attempt, phase: Phase) -> None:
        """Remember where it is."""
        tally = self._running.get(attempt.task_id)
        if tally is not None:
            tally.phase = phase

    def phase_ended(self, attempt: Attempt, phase: Phase, seconds: float) -> None:
        """Add up its time."""
        tally = self._running.get(attempt.task_id)
        if tally is not None:
            tally.phases[phase] = tally.phases.get(phase, 0.0) + seconds

    def transferred(self, attempt: Attempt, objects: int, size: int) -> None:
        """Add up what it moved."""
        tally = self._running.get(attempt.task_id)
        if tally is not None:
            direction = direction_of(tally.phase)
            tally.objects[direction] += objects
            tally.size[direction] += size

    def changes_found(self, attempt: Attempt, changes: ChangeCount) -> None:
        """Remember what it changed."""
        tally = self._running.get(attempt.task_id)
        if tally is not None:
            tally.changes = changes

    def attempt_ended(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """The line."""
        tally = self._running.pop(attempt.task_id, None)
        if tally is None:
            return
        seconds = self._clock.elapsed() - tally.began
        summary = build_summary(tally, outcome, seconds)
        level = logging.INFO if isinstance(outcome, Completed) else logging.WARNING
        with about(tally.execution):
            _log.log(
                level,
                "%s",
                _describe(attempt, tally, outcome, seconds),
                extra={"summary": summary},
            )

    def executor_died(self, attempt: Attempt | None, how: str) -> None:
        """A line, also where it had no attempt."""
        tally = self._running.get(attempt.task_id) if attempt is not None else None
        if tally is None:
            _log.warning("an idle executor died: %s", how)
        else:
            with about(tally.execution):
                _log.warning("the executor died in phase %s: %s", tally.phase, how)


def build_summary(tally: _Tally, outcome: Outcome | None, seconds: float) -> JsonObject:
    """What a machine reads of an attempt that ended."""
    summary: JsonObject = {
        "status": outcome.status.value if outcome is not None else GIVEN_UP,
        "seconds": round(seconds, 3),
        "phases": {phase.value: round(took, 3) for phase, took in tally.phases.items()},
        "down": tally.moved(Direction.DOWN),
        "up": tally.moved(Direction.UP),
        "files": _files(tally.changes),
        "input_ref": tally.execution.input_ref,
        "output_ref": None,
        "staging_branch": _staged_on(tally),
    }
    match outcome:
        case Completed(output=output):
            summary["output_ref"] = read_ref(output)
        case None:
            summary["phase"] = tally.phase.value
        case _:
            summary |= {"phase": outcome.phase.value, "reason": outcome.reason[:_MAX_REASON]}
    return summary


def _files(changes: ChangeCount | None) -> JsonValue:
    if changes is None:
        return None
    return {"written": changes.written, "deleted": changes.deleted}


def _staged_on(tally: _Tally) -> str | None:
    """The staging branch, where there may be one: only what entered that phase has made one."""
    changes = tally.changes
    changed_nothing = changes is not None and not changes.written and not changes.deleted
    # An executor that died while it staged left that phase open, and maybe its branch.
    has_entered = tally.phase is Phase.STAGE or Phase.STAGE in tally.phases
    if not has_entered or changed_nothing:
        return None
    return tally.execution.staging_branch


def _describe(attempt: Attempt, tally: _Tally, outcome: Outcome | None, seconds: float) -> str:
    status = outcome.status.value if outcome is not None else GIVEN_UP
    where = "" if isinstance(outcome, Completed) else f" in {_end_phase(tally, outcome)}"
    phases = " ".join(f"{phase}={took:.3f}s" for phase, took in tally.phases.items())
    moved = " ".join(
        f"{way}={tally.objects[way]} objects/{tally.size[way]} bytes" for way in Direction
    )
    parts = [f"{attempt.reference_name} {status}{where} after {seconds:.3f}s", phases, moved]
    if tally.changes is not None:
        parts.append(f"files={tally.changes.written} written/{tally.changes.deleted} deleted")
    match outcome:
        case Completed(output=output):
            parts.append(f"output_ref={read_ref(output) or '-'}")
        case None:
            pass
        case _:
            parts.append(f"reason={outcome.reason[:_MAX_REASON]}")
    return "; ".join(part for part in parts if part)


def _end_phase(tally: _Tally, outcome: Outcome | None) -> Phase:
    if outcome is None or isinstance(outcome, Completed):
        return tally.phase
    return outcome.phase

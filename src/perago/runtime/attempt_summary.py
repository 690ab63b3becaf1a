"""One log line for each attempt that ended: how, how long, and what it moved and changed.

Told by the supervisor's side, so that an attempt whose executor died has one as well.
"""

from __future__ import annotations

import logging

from perago.domain.changes import ChangeCount
from perago.domain.events import AttemptEnded, AttemptStarted, AttemptTally, Event, ExecutorDied
from perago.domain.execution import Execution
from perago.domain.ids import TaskId
from perago.domain.outcome import Completed, Direction, JsonObject, JsonValue, Phase, read_ref
from perago.runtime.log_context import about

_log = logging.getLogger("perago.attempt")

_MAX_REASON = 500


class AttemptSummaries:
    """The `EventHandler` that logs the end of each attempt, and the death of each executor."""

    def __init__(self) -> None:
        self._running: dict[TaskId, Execution] = {}

    def handle(self, event: Event) -> None:
        """Log the event, if it is an end or a death."""
        match event:
            case AttemptStarted(execution=execution):
                self._running[event.attempt.task_id] = execution
            case AttemptEnded():
                self._running.pop(event.attempt.task_id, None)
                _log_end(event)
            case ExecutorDied():
                self._log_death(event)
            case _:
                pass

    def _log_death(self, death: ExecutorDied) -> None:
        if death.attempt is None:
            _log.warning("an idle executor died: %s", death.how)
        else:
            with about(self._running.get(death.attempt.task_id, death.attempt)):
                _log.warning("the executor died in phase %s: %s", death.phase, death.how)


def _log_end(end: AttemptEnded) -> None:
    level = logging.INFO if isinstance(end.outcome, Completed) else logging.WARNING
    with about(end.tally.execution):
        _log.log(level, "%s", _describe(end), extra={"summary": build_summary(end)})


def build_summary(end: AttemptEnded) -> JsonObject:
    """What a machine reads of an attempt that ended."""
    tally = end.tally
    summary: JsonObject = {
        "status": end.status,
        "seconds": round(end.seconds, 3),
        "phases": {phase.value: round(took, 3) for phase, took in tally.phases.items()},
        "down": _moved(tally, Direction.DOWN),
        "up": _moved(tally, Direction.UP),
        "files": _files(tally.changes),
        "input_ref": tally.execution.input_ref,
        "output_ref": None,
        "staging_branch": _staged_on(tally),
    }
    match end.outcome:
        case Completed(output=output):
            summary["output_ref"] = read_ref(output)
        case None:
            summary["phase"] = tally.phase.value
        case failure:
            summary |= {"phase": failure.phase.value, "reason": failure.reason[:_MAX_REASON]}
    return summary


def _moved(tally: AttemptTally, direction: Direction) -> JsonObject:
    return {"objects": tally.objects[direction], "bytes": tally.size[direction]}


def _files(changes: ChangeCount | None) -> JsonValue:
    if changes is None:
        return None
    return {"written": changes.written, "deleted": changes.deleted}


def _staged_on(tally: AttemptTally) -> str | None:
    """The staging branch, where there may be one: only what entered that phase has made one."""
    changes = tally.changes
    changed_nothing = changes is not None and not changes.written and not changes.deleted
    # An executor that died while it staged left that phase open, and maybe its branch.
    has_entered = tally.phase is Phase.STAGE or Phase.STAGE in tally.phases
    if not has_entered or changed_nothing:
        return None
    return tally.execution.staging_branch


def _describe(end: AttemptEnded) -> str:
    tally, outcome = end.tally, end.outcome
    where = "" if isinstance(outcome, Completed) else f" in {_end_phase(end)}"
    phases = " ".join(f"{phase}={took:.3f}s" for phase, took in tally.phases.items())
    moved = " ".join(
        f"{way}={tally.objects[way]} objects/{tally.size[way]} bytes" for way in Direction
    )
    name = end.attempt.reference_name
    parts = [f"{name} {end.status}{where} after {end.seconds:.3f}s", phases, moved]
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


def _end_phase(end: AttemptEnded) -> Phase:
    if end.outcome is None or isinstance(end.outcome, Completed):
        return end.tally.phase
    return end.outcome.phase

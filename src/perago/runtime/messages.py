"""What a supervisor and its executors tell each other.

From executor to supervisor the messages are JSON, since a body runs in that process: nothing that
it writes is ever unpickled. Every field is checked when it is read. Towards the executor they are
pickled, as plain values without handles.
"""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from perago.domain.changes import ChangeCount
from perago.domain.ids import ExecutionId
from perago.domain.outcome import (
    Completed,
    Failed,
    JsonValue,
    Outcome,
    Phase,
    TerminalFailure,
)
from perago.domain.spark_progress import SparkProgress, SparkStage
from perago.domain.workflow import PolledTask
from perago.runtime.frames import BadFrameError

# -- to an executor


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAttempt:
    """Run this. The lease is in shared memory, not here: it changes."""

    polled: PolledTask
    execution_id: ExecutionId
    log_path: Path
    nonce: bytes
    """What every message about this attempt carries."""
    is_brief: bool
    """Whether it will be over in no time, if it is like those before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The orchestrator was told how the attempt ended, or will not be told any more."""

    execution_id: ExecutionId
    is_accepted: bool


@dataclass(frozen=True, slots=True)
class Stop:
    """End when idle."""


ToExecutor = RunAttempt | Reported | Stop

# -- from an executor


@dataclass(frozen=True, slots=True)
class Ready:
    """It is built and waits for work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """It could not be built, and another one could not either."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBegan:
    """Its attempt entered a phase."""

    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseOver:
    """Its attempt left a phase."""

    phase: Phase
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Objects and bytes moved since the last such message."""

    objects: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyProgress:
    """The body said how far it is."""

    message: str
    fraction: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkIsAt:
    """How far Spark is, now and then with a line for the task's log."""

    progress: SparkProgress
    line: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """How the attempt ended. The supervisor reports it; the executor still cleans up."""

    outcome: Outcome
    changes: ChangeCount | None = None


@dataclass(frozen=True, slots=True)
class CleanedUp:
    """Nothing is left of the attempt, and the slot is free."""


FromAttempt = PhaseBegan | PhaseOver | Moved | BodyProgress | SparkIsAt | Decided | CleanedUp
FromExecutor = Ready | Unfit | FromAttempt


def encode_to_executor(message: ToExecutor) -> bytes:
    """A message as the payload of a frame; `BadFrameError` where its input cannot be carried."""
    try:
        return pickle.dumps(message)
    except RecursionError as error:
        raise BadFrameError("a message that is nested too deeply") from error


def decode_from_supervisor(payload: bytes) -> ToExecutor:
    """A message of the supervisor, which runs no body."""
    message: ToExecutor = pickle.loads(payload)  # noqa: S301 - from our own parent # nosec B301
    return message


def encode_from_executor(messages: Sequence[FromExecutor]) -> bytes:
    """Messages in their order as the payload of one frame."""
    return json.dumps([_as_json(message) for message in messages], allow_nan=False).encode()


def _refuse_constant(name: str) -> float:
    raise BadFrameError(f"the number {name}, which no server could read")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse_constant(digits)


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant)


def decode_from_executor(payload: bytes) -> list[FromExecutor]:
    """The messages of a frame; `BadFrameError` for anything that no executor sends."""
    try:
        found = _DECODER.decode(payload.decode())
        if not isinstance(found, list):
            raise BadFrameError("a message that is no list")
        return [_from_json(one) for one in found]
    # Whatever a body wrote: too deep, a number that is too long, no UTF-8, a field that is missing.
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError, MemoryError) as error:
        raise BadFrameError(f"a message that cannot be read ({type(error).__name__})") from error


def _as_json(message: FromExecutor) -> list[JsonValue]:
    match message:
        case Ready():
            return ["ready"]
        case Unfit(reason=reason):
            return ["unfit", reason]
        case PhaseBegan(phase=phase):
            return ["began", phase.value]
        case PhaseOver(phase=phase, seconds=seconds):
            return ["over", phase.value, seconds]
        case Moved(objects=objects, size=size):
            return ["moved", objects, size]
        case BodyProgress(message=text, fraction=fraction):
            return ["progress", text, fraction]
        case SparkIsAt(progress=progress, line=line):
            return ["spark", _spark_as_json(progress), line]
        case Decided(outcome=outcome, changes=changes):
            counts: JsonValue = None if changes is None else [changes.written, changes.deleted]
            return ["decided", _outcome_as_json(outcome), counts]
        case CleanedUp():
            return ["cleaned"]
        case _:
            assert_never(message)


def _from_json(found: JsonValue) -> FromExecutor:  # noqa: C901 - a case for each kind
    match found:
        case ["ready"]:
            return Ready()
        case ["unfit", str(reason)]:
            return Unfit(reason=reason)
        case ["began", str(phase)]:
            return PhaseBegan(phase=Phase(phase))
        case ["over", str(phase), float() | int() as seconds]:
            return PhaseOver(phase=Phase(phase), seconds=_duration(seconds))
        case ["moved", int(objects), int(size)]:
            return Moved(objects=_count(objects), size=_count(size))
        case ["progress", str(text), None]:
            return BodyProgress(message=text, fraction=None)
        case ["progress", str(text), float() | int() as fraction]:
            return BodyProgress(message=text, fraction=_fraction(fraction))
        case ["spark", progress, None | str() as line]:
            return SparkIsAt(progress=_spark_from_json(progress), line=line)
        case ["decided", outcome, None]:
            return Decided(outcome=_outcome_from_json(outcome))
        case ["decided", outcome, [int(written), int(deleted)]]:
            changes = ChangeCount(written=_count(written), deleted=_count(deleted))
            return Decided(outcome=_outcome_from_json(outcome), changes=changes)
        case ["cleaned"]:
            return CleanedUp()
        case _:
            raise BadFrameError("a message of no known kind")


def _outcome_as_json(outcome: Outcome) -> list[JsonValue]:
    match outcome:
        case Completed(output=output):
            return [outcome.status.value, output]
        case Failed(reason=reason, phase=phase) | TerminalFailure(reason=reason, phase=phase):
            return [outcome.status.value, reason, phase.value]
        case _:
            assert_never(outcome)


def _outcome_from_json(found: JsonValue) -> Outcome:
    match found:
        case [Completed.status.value, dict(output)]:
            return Completed(output=output)
        case [Failed.status.value, str(reason), str(phase)]:
            return Failed(reason=reason, phase=Phase(phase))
        case [TerminalFailure.status.value, str(reason), str(phase)]:
            return TerminalFailure(reason=reason, phase=Phase(phase))
        case _:
            raise BadFrameError("an outcome of no known kind")


def _spark_as_json(progress: SparkProgress) -> list[JsonValue]:
    stages: list[JsonValue] = [[one.name, one.tasks, one.tasks_done] for one in progress.active]
    return [
        progress.jobs,
        progress.stages,
        progress.stages_done,
        progress.tasks_done,
        progress.tasks_failed,
        stages,
    ]


def _spark_from_json(found: JsonValue) -> SparkProgress:
    match found:
        case [int(jobs), int(stages), int(stages_done), int(done), int(failed), list(active)]:
            return SparkProgress(
                jobs=_count(jobs),
                stages=_count(stages),
                stages_done=_count(stages_done),
                tasks_done=_count(done),
                tasks_failed=_count(failed),
                active=tuple(_stage_from_json(one) for one in active),
            )
        case _:
            raise BadFrameError("a progress of no known kind")


def _stage_from_json(found: JsonValue) -> SparkStage:
    match found:
        case [str(name), int(tasks), int(done)]:
            return SparkStage(name=name, tasks=_count(tasks), tasks_done=_count(done))
        case _:
            raise BadFrameError("a Spark stage of no known kind")


_MOST = 1 << 62
"""Larger counts would not fit where metrics and displays keep them."""


def _count(number: int) -> int:
    if isinstance(number, bool) or not 0 <= number < _MOST:
        raise BadFrameError("a count out of all bounds")
    return number


def _fraction(number: float) -> float:
    if isinstance(number, bool):
        raise BadFrameError("a fraction that is no number")
    return float(number)


def _duration(seconds: float) -> float:
    if isinstance(seconds, bool) or not 0 <= seconds < _MOST:
        raise BadFrameError("a time out of all bounds")
    return float(seconds)

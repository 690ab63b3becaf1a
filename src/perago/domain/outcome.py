"""How an attempt ends, and which ending each failure gets.

Invariant: only `Completed` carries an output, so no failure can produce a `workspace` output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from perago.domain.attempt import AttemptStatus
from perago.domain.errors import GuardrailViolationError, PeragoError, TaskTerminalError
from perago.domain.ids import CommitId
from perago.domain.workspace import WorkspaceRef

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
JsonObject = dict[str, JsonValue]


MAX_REASON_CHARACTERS = 4_000
"""How much of an error a report carries: a JVM's stack trace would burst the size limit."""

EXECUTOR_DIED = "the executor died in phase"
"""How the reason of an attempt begins whose executor died. By it attempts are counted in the
orchestrator's record: once it is changed, the older ones no longer count."""

WORKER_DIED = "the worker that held it died"
"""The reason of an attempt whose whole worker died. It is not counted: nobody knows of what the
worker died, and whoever restarts workers must not end the tasks that they hold."""


class Phase(StrEnum):
    """The phases of one attempt, in the order in which they happen."""

    VALIDATE = "validate"
    PREPARE = "prepare"
    DOWNLOAD = "download"
    PRE_CHECK = "pre-check"
    BODY = "body"
    POST_CHECK = "post-check"
    DIFF = "diff"
    STAGE = "stage"
    PUBLISH = "publish"
    REPORT = "report"
    CLEANUP = "cleanup"


class Direction(StrEnum):
    """Which way objects move, seen from the worker."""

    DOWN = "down"
    UP = "up"


def direction_of(phase: Phase) -> Direction:
    """Which way objects move in a phase: only staging sends any."""
    return Direction.UP if phase is Phase.STAGE else Direction.DOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The attempt succeeded; `output` is the whole task output."""

    output: JsonObject

    status = AttemptStatus.COMPLETED


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The attempt failed; the orchestrator retries it as the task's definition says."""

    reason: str
    phase: Phase

    status = AttemptStatus.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalFailure:
    """The attempt failed and no retry can help."""

    reason: str
    phase: Phase

    status = AttemptStatus.FAILED_WITH_TERMINAL_ERROR


Outcome = Completed | Failed | TerminalFailure


def decide_failure(error: BaseException, phase: Phase) -> Failed | TerminalFailure:
    """The failure table of the protocol.

    Only two things are terminal here: input files that break the task's contract, and a body
    that says so. (A task that keeps killing executors is judged by the supervisor.)
    """
    reason = describe_error(error)
    if isinstance(error, TaskTerminalError):
        return TerminalFailure(reason=reason, phase=phase)
    if isinstance(error, GuardrailViolationError) and error.before_body:
        return TerminalFailure(reason=reason, phase=phase)
    return Failed(reason=reason, phase=phase)


def decide_executor_death(
    *, reference_name: str, phase: Phase, deaths: int, limit: int, how: str
) -> Failed | TerminalFailure:
    """What becomes of an attempt whose executor died; `deaths` counts this one."""
    died = f"{EXECUTOR_DIED} {phase}: {how}"
    if deaths >= limit:
        return TerminalFailure(
            reason=f"{died}; {reference_name} killed {deaths} executors, and {limit} is the limit",
            phase=phase,
        )
    return Failed(reason=f"{died} ({deaths} of {limit})", phase=phase)


def describe_error(error: BaseException) -> str:
    """A text that can be reported: our errors speak for themselves, others show their type."""
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a task author's exception may fail to print itself
        text = "(an exception that cannot be printed)"
    if not isinstance(error, PeragoError):
        text = f"{kind}: {text}" if text else kind
    if len(text) > MAX_REASON_CHARACTERS:
        text = f"{text[:MAX_REASON_CHARACTERS]}… (cut)"
    # A file name that is no UTF-8 arrives as surrogates, which no report can carry.
    return text.encode("utf-8", "backslashreplace").decode()


def build_output(
    workspace: WorkspaceRef | None, result: Mapping[str, JsonValue], ref: CommitId | None
) -> JsonObject:
    """The output of a completed attempt; `ref` is the input ref or the published commit."""
    output: JsonObject = {}
    if workspace is not None:
        output["workspace"] = {
            "repository": workspace.repository,
            "branch": workspace.branch,
            "ref_type": "commit",
            "ref": ref if ref is not None else workspace.ref,
        }
    output["result"] = dict(result)
    return output


def read_ref(payload: JsonObject) -> CommitId | None:
    """The commit that a task's input or output names; None where there is no workspace."""
    workspace = payload.get("workspace")
    ref = workspace.get("ref") if isinstance(workspace, dict) else None
    return CommitId(ref) if isinstance(ref, str) else None


def find_refs(payload: JsonObject) -> set[CommitId]:
    """Every commit that an input or output names as a workspace's, whatever key it stands under."""
    found: set[CommitId] = set()
    rest: list[JsonValue] = [payload]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            ref = value.get("ref")
            if isinstance(ref, str):
                found.add(CommitId(ref))
            rest += value.values()
        elif isinstance(value, list):
            rest += value
    return found

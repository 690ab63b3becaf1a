"""Steps that no Perago worker runs: Conductor's own tasks, and workers in other languages.

Invariant: each says whether it writes the workspace, so that the steps after it start from the
right commit. One that writes outputs a `workspace` key, like a Perago task.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from perago.domain.errors import PipelineError
from perago.domain.outcome import JsonObject, JsonValue

# Conductor reads the units in this order only.
DURATION = re.compile(
    r"(?=\d)(\d+\s*(days?|d)\s*)?(\d+\s*(hours?|hrs?|h)\s*)?"
    r"(\d+\s*(minutes?|mins?|m)\s*)?(\d+\s*(seconds?|secs?|s))?",
    re.IGNORECASE,
)
UNTIL = re.compile(r"\d{4}-\d\d-\d\d( \d\d:\d\d( \S+)?)?")

# They hold further tasks, whose writing nobody could check.
STRUCTURAL_TYPES = frozenset(
    {
        "DECISION",
        "DO_WHILE",
        "DYNAMIC",
        "EXCLUSIVE_JOIN",
        "FORK",
        "FORK_JOIN",
        "FORK_JOIN_DYNAMIC",
        "JOIN",
        "SWITCH",
    }
)

OWN_FIELDS = frozenset({"inputParameters", "name", "taskReferenceName", "type"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RawTask:
    """A step that is written in Conductor's own terms."""

    reference: str
    type: str
    name: str
    writes_workspace: bool
    input: Mapping[str, object] = field(default_factory=dict)
    fields: JsonObject = field(default_factory=dict)


def raw(
    ref: str,
    *,
    type: str,  # noqa: A002 - Conductor's word
    name: str,
    writes_workspace: bool,
    input: Mapping[str, object] | None = None,  # noqa: A002 - Conductor's word
    fields: Mapping[str, JsonValue] | None = None,
) -> RawTask:
    """Any single Conductor task, such as a `SIMPLE` one for a worker in another language.

    One that writes gets the current workspace as `workspace` in its input. Values of `input` may
    be expressions (`result_of(...)`) or hold `${…}` texts. `fields` are further fields of the
    workflow task.
    """
    if type in STRUCTURAL_TYPES:
        raise PipelineError(
            f"raw task {ref!r} is a {type}, which holds other tasks",
            hint="use parallel(...) for branches; a raw task is a single one",
        )
    if clash := sorted(OWN_FIELDS & set(fields or {})):
        raise PipelineError(
            f"raw task {ref!r}: {clash[0]!r} cannot be given in fields=",
            hint="it has a parameter of its own",
        )
    if writes_workspace and input and "workspace" in input:
        raise PipelineError(
            f"raw task {ref!r} writes the workspace and gives `workspace` in its input",
            hint="leave it out: the current workspace is wired to it",
        )
    return RawTask(
        reference=ref,
        type=type,
        name=name,
        writes_workspace=writes_workspace,
        input=dict(input or {}),
        fields=dict(fields or {}),
    )


def human(
    ref: str,
    *,
    writes_workspace: bool,
    input: Mapping[str, object] | None = None,  # noqa: A002 - Conductor's word
) -> RawTask:
    """Wait until a person completes the step; `perago complete` does."""
    return raw(ref, type="HUMAN", name=ref, writes_workspace=writes_workspace, input=input)


def wait(ref: str, *, duration: str | timedelta | None = None, until: str | None = None) -> RawTask:
    """Wait for a time: `duration="10m"`, or `until="2030-01-31 09:00 GMT+01:00"`."""
    if (duration is None) == (until is None):
        raise PipelineError(f"wait({ref!r}) needs either duration= or until=")
    if isinstance(duration, timedelta):
        duration = f"{int(duration.total_seconds())}s"
    if duration is not None and not DURATION.fullmatch(duration.strip()):
        raise PipelineError(
            f"wait({ref!r}): {duration!r} is no duration",
            hint='such as "90s", "10m", "2 hours 30 minutes", or a timedelta',
        )
    if until is not None and not UNTIL.fullmatch(until):
        raise PipelineError(
            f"wait({ref!r}): {until!r} is no date and time",
            hint='such as "2030-01-31", "2030-01-31 09:00" or "2030-01-31 09:00 GMT+01:00"',
        )
    given: Mapping[str, object] = {"duration": duration} if duration else {"until": until}
    return raw(ref, type="WAIT", name=ref, writes_workspace=False, input=given)


def http(ref: str, *, request: Mapping[str, object]) -> RawTask:
    """Send an HTTP request: `request={"uri": "https://…", "method": "GET"}`."""
    return raw(
        ref, type="HTTP", name=ref, writes_workspace=False, input={"http_request": dict(request)}
    )


def sub_workflow(
    ref: str,
    *,
    name: str,
    version: int,
    writes_workspace: bool,
    input: Mapping[str, object] | None = None,  # noqa: A002 - Conductor's word
) -> RawTask:
    """Run another workflow as a step; a Perago pipeline outputs `workspace` as it must."""
    return raw(
        ref,
        type="SUB_WORKFLOW",
        name=name,
        writes_workspace=writes_workspace,
        input=input,
        fields={"subWorkflowParam": {"name": name, "version": version}},
    )

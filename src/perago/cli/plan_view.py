"""What registering would do, for people."""

from __future__ import annotations

import json

from perago.app.register import Change, Kind, PlannedDefinition, RegistrationPlan
from perago.cli.output import Output
from perago.domain.outcome import JsonValue

_SHOWN_CHARACTERS = 60
_MARKS = {Change.NEW: ("+", "green"), Change.CHANGED: ("~", "yellow"), Change.UNCHANGED: ("=", "")}


def show_plan(output: Output, plan: RegistrationPlan) -> None:
    """One line for each definition, and one for each field that differs."""
    for planned in plan.definitions:
        mark, style = _MARKS[planned.change]
        output.say(f"{mark} {planned.title}{_remark(planned)}", style=style)
        for difference in planned.differences:
            before, after = _show(difference.registered), _show(difference.declared)
            output.say(f"    {difference.path}: {before} -> {after}")


def _remark(planned: PlannedDefinition) -> str:
    if planned.refusal is not None:
        return f": refused, {planned.refusal.reason}"
    if planned.kind is Kind.WORKFLOW and planned.change is Change.CHANGED:
        return ": a registered version changes; runs under way keep theirs"
    return ""


def _show(value: JsonValue) -> str:
    if value is None:
        return "(not set)"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"

"""`perago register`: the definitions of tasks and pipelines, to the orchestrator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perago.cli.check import Targets
from perago.cli.context import JsonFlag, help_text, options_of
from perago.cli.errors import ExitCode
from perago.cli.output import Output, plural
from perago.domain.outcome import JsonObject, JsonValue

if TYPE_CHECKING:
    from perago.app.register import RegistrationPlan

HELP = help_text(
    "Register the definitions of tasks and pipelines with the orchestrator.",
    {
        "perago register flights.py": "show what differs, then register it",
        "perago register flights.py --dry-run": "only show it",
        "perago register jobs.etl jobs.report --json": "for a program",
    },
    "Only what differs is written; a second call has nothing to do. Fields that the server fills "
    "in by itself are no differences. Where the server has a newer version of a workflow than the "
    "code, everything is refused. "
    "The orchestrator is the one that the settings choose (PERAGO_CONDUCTOR_URL or "
    "CONDUCTOR_SERVER_URL).",
)


def register(
    context: typer.Context,
    targets: Targets,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; show what would be written.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Register definitions."""
    from perago.app.register import plan_registration, read_registered
    from perago.app.register import register as write
    from perago.authoring import build_definition_set, warnings_of
    from perago.bootstrap import describe_orchestrator, open_application
    from perago.cli.plan_view import show_plan
    from perago.cli.targets import load_declarations

    output, settings = Output(as_json=as_json), options_of(context).settings()
    declared = build_definition_set(load_declarations(targets, Path.cwd()))
    warnings = [warning for task in declared.tasks for warning in warnings_of(task)]
    for warning in warnings:
        output.note(f"warning: {warning}")
    with open_application(settings, create=not dry_run) as application:
        orchestrator = application.orchestrator
        plan = plan_registration(declared, read_registered(orchestrator, declared))
        output.say(f"orchestrator: {describe_orchestrator(settings)}")
        show_plan(output, plan)
        if not (as_json and plan.refused) and not dry_run:
            write(orchestrator, plan)
    said: list[JsonValue] = list(warnings)
    where = describe_orchestrator(settings)
    output.answer({"orchestrator": where, **_as_json(plan, dry_run=dry_run), "warnings": said})
    _conclude(output, plan, dry_run=dry_run)


def _conclude(output: Output, plan: RegistrationPlan, *, dry_run: bool) -> None:
    from perago.app.register import Change, refuse_bad_plan

    if plan.refused:
        if output.as_json:
            raise typer.Exit(ExitCode.USAGE)  # the answer has the reasons
        refuse_bad_plan(plan)
    if not plan.to_write:
        count = len(plan.definitions)
        output.say(f"nothing to do: {plural(count, 'definition')} registered as declared")
        return
    verb = "would register" if dry_run else "registered"
    counts = [f"{_count(plan, change)} {change}" for change in Change]
    output.say(f"{verb} {plural(len(plan.to_write), 'definition')} ({', '.join(counts)})")


def _count(plan: RegistrationPlan, change: str) -> int:
    return sum(one.change == change for one in plan.definitions)


def _as_json(plan: RegistrationPlan, *, dry_run: bool) -> JsonObject:
    definitions: list[JsonValue] = []
    for one in plan.definitions:
        differences: list[JsonValue] = [
            {"path": each.path, "registered": each.registered, "declared": each.declared}
            for each in one.differences
        ]
        refusal = one.refusal
        definitions.append(
            {
                "kind": one.kind.value,
                "name": one.name,
                "version": one.version,
                "change": one.change.value,
                "differences": differences,
                "refused": None if refusal is None else refusal.reason,
                "hint": None if refusal is None else refusal.hint,
            }
        )
    is_written = not dry_run and not plan.refused
    return {
        "dry_run": dry_run,
        "written": len(plan.to_write) if is_written else 0,
        "definitions": definitions,
    }

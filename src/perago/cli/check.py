"""`perago check`: what a worker would be asked to do, looked over before it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perago.cli.context import JsonFlag, help_text, options_of
from perago.cli.describe import describe_guardrail, describe_retry, describe_timeouts
from perago.cli.errors import ExitCode
from perago.cli.output import Output
from perago.domain.errors import PeragoError
from perago.domain.outcome import JsonObject, JsonValue

if TYPE_CHECKING:
    from perago.authoring import AnyTask, Declarations, Pipeline
    from perago.settings import ResolvedSettings, Settings

HELP = help_text(
    "Look over tasks and pipelines without running them.",
    {
        "perago check flights.py": "tasks, pipelines, warnings; whether Java fits",
        "perago check jobs.etl jobs.report": "what one worker would serve together",
        "perago check flights.py --settings": "also every setting and where it comes from",
    },
    "Exits with 1 when something is wrong.",
)

Targets = Annotated[
    list[str],
    typer.Argument(metavar="TARGET...", help="module, module:name, path.py or path.py:name"),
]


def check(
    context: typer.Context,
    targets: Targets,
    show_settings: Annotated[
        bool, typer.Option("--settings", help="Show every setting with its source.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Look over tasks and pipelines."""
    from perago.cli.targets import load_declarations

    output = Output(as_json=as_json)
    resolved = options_of(context).resolve()
    problems: list[PeragoError] = []
    answer: JsonObject = {"tasks": [], "pipelines": [], "spark": None}
    answer["store"] = _check_store(resolved.settings, output, problems)
    try:
        declarations = load_declarations(targets, Path.cwd())
    except PeragoError as error:
        problems.append(error)
    else:
        answer |= _look_over(declarations, resolved.settings, output, problems)
    if show_settings:
        answer["settings"] = _show_settings(resolved, output)
    _conclude(output, answer, problems)


def _check_store(settings: Settings, output: Output, problems: list[PeragoError]) -> JsonObject:
    """Say which store would be worked on, and note what it lacks; nothing is opened."""
    from perago.bootstrap import describe_store
    from perago.settings import require_complete

    store = describe_store(settings)
    output.say(f"store: {store}")
    try:
        require_complete(settings)
    except PeragoError as error:
        problems.append(error)
    return {"kind": store.kind, "place": store.place, "fencing": store.fencing.value}


def _look_over(
    declarations: Declarations,
    settings: Settings,
    output: Output,
    problems: list[PeragoError],
) -> JsonObject:
    """Show what was declared; note what cannot work here."""
    tasks: list[JsonValue] = [_task_json(task) for task in declarations.tasks]
    pipelines: list[JsonValue] = [_pipeline_json(found) for found in declarations.pipelines]
    _show_tasks(output, declarations.tasks)
    for pipeline in declarations.pipelines:
        _show_pipeline(output, pipeline)
    spark = None
    if any(task.needs_spark for task in declarations.tasks):
        spark = _check_spark(settings, output, problems)
    return {"tasks": tasks, "pipelines": pipelines, "spark": spark}


def _check_spark(settings: Settings, output: Output, problems: list[PeragoError]) -> str | None:
    from perago.bootstrap import describe_spark

    try:
        spark = describe_spark(settings)
    except PeragoError as error:
        problems.append(error)
        return None
    output.say(f"Spark: {spark}")
    return spark


def _show_tasks(output: Output, tasks: Sequence[AnyTask]) -> None:
    from perago.authoring import warnings_of

    rows = []
    for task in tasks:
        spec = task.workspace
        mode, prefix = "none", ""
        if spec is not None:
            mode, prefix = "read-only" if spec.read_only else "writes", str(spec.prefix)
        guardrails = [] if spec is None else [*spec.pre, *spec.post]
        counts = "" if spec is None else f"{len(spec.pre)} before, {len(spec.post)} after"
        rows.append(
            (
                task.name,
                mode,
                prefix,
                counts if guardrails else "",
                describe_retry(task.controls.retry),
                describe_timeouts(task.controls.timeout),
                "yes" if task.needs_spark else "",
            )
        )
    output.table(("task", "workspace", "prefix", "guardrails", "retry", "time-outs", "Spark"), rows)
    for task in tasks:
        for warning in warnings_of(task):
            output.say(f"warning: {warning}", style="yellow")


def _show_pipeline(output: Output, pipeline: Pipeline) -> None:
    from perago.authoring.schemas import describe_object

    params = describe_object(pipeline.params.input_schema)
    output.say()
    output.say(f"pipeline {pipeline.name} v{pipeline.version}, params {params}")
    rows = [
        (str(step["step"]), str(step["task"]), str(step["type"]), str(step["workspace_from"] or ""))
        for step in _wired_steps(pipeline)
    ]
    output.table(("step", "task", "type", "workspace from"), rows)


def _wired_steps(pipeline: Pipeline) -> list[JsonObject]:
    from perago.cli.board import walk_tasks

    steps: list[JsonObject] = []
    for task in walk_tasks(pipeline.workflow_definition()):
        given = task.get("inputParameters")
        steps.append(
            {
                "step": task["taskReferenceName"],
                "task": task["name"],
                "type": task["type"],
                "workspace_from": _source(
                    given.get("workspace") if isinstance(given, dict) else None
                ),
            }
        )
    return steps


def _source(expression: JsonValue) -> str | None:
    """Whose workspace a step gets: `input`, or the reference name of a step before it."""
    if not isinstance(expression, str):
        return None
    place = expression.removeprefix("${").partition(".")[0]
    return "input" if place == "workflow" else place


def _task_json(task: AnyTask) -> JsonObject:
    from perago.authoring import warnings_of

    spec = task.workspace
    workspace: JsonValue = None
    if spec is not None:
        workspace = {
            "prefix": str(spec.prefix),
            "read_only": spec.read_only,
            "pre": [describe_guardrail(guardrail) for guardrail in spec.pre],
            "post": [describe_guardrail(guardrail) for guardrail in spec.post],
        }
    warnings: list[JsonValue] = list(warnings_of(task))
    return {
        "name": task.name,
        "location": task.location,
        "workspace": workspace,
        "retry": describe_retry(task.controls.retry),
        "timeouts": describe_timeouts(task.controls.timeout),
        "needs_spark": task.needs_spark,
        "warnings": warnings,
    }


def _pipeline_json(pipeline: Pipeline) -> JsonObject:
    steps: list[JsonValue] = list(_wired_steps(pipeline))
    return {"name": pipeline.name, "version": pipeline.version, "steps": steps}


def _show_settings(resolved: ResolvedSettings, output: Output) -> JsonObject:
    values = resolved.settings.shown()
    output.say()
    output.table(
        ("setting", "value", "source"),
        [
            (name, "" if value is None else str(value), resolved.sources[name])
            for name, value in values.items()
        ],
    )
    return {
        name: {"value": value, "source": resolved.sources[name]} for name, value in values.items()
    }


def _conclude(output: Output, answer: JsonObject, problems: Sequence[PeragoError]) -> None:
    found: list[JsonValue] = [
        {"type": type(error).__name__, "message": error.message, "hint": error.hint}
        for error in problems
    ]
    output.answer({"ok": not problems, **answer, "problems": found})
    for error in problems:
        output.say(f"problem: {error.message}", style="red")
        if error.hint:
            output.say(f"hint: {error.hint}")
    if problems:
        raise typer.Exit(ExitCode.FAILED)
    output.say("ok", style="green")

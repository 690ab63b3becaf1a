"""`perago status`: the runs that the orchestrator knows, or one of them with every attempt."""

from __future__ import annotations

from typing import Annotated

import typer

from perago.cli.context import JsonFlag, help_text, options_of
from perago.cli.output import (
    Output,
    json_time,
    short,
    short_run,
    show_seconds,
    show_time,
)
from perago.domain.outcome import JsonObject, JsonValue, read_ref
from perago.domain.workflow import TaskState, WorkflowState

HELP = help_text(
    "List the runs, or show one run with every attempt.",
    {
        "perago status": "the newest runs",
        "perago status --pipeline flights": "those of one pipeline",
        "perago status last": "the newest one, attempt by attempt",
        "perago status 3f2a9c41 --json": "one run, for a program",
    },
    "RUN is an id, a unique beginning of one, or `last`.",
)

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, a beginning of it, or `last`.")
]


def status(
    context: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="A run's id, a beginning of it, or `last`."),
    ] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="How many runs to list.")] = 20,
    pipeline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="List only the runs of this pipeline, by its name."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """List the runs, or show one."""
    from perago.app.follow import find_run
    from perago.bootstrap import open_application

    output = Output(as_json=as_json)
    with open_application(options_of(context).settings()) as application:
        if run is None:
            runs = application.orchestrator.workflows(limit=limit, name=pipeline)
            _show_runs(output, runs, pipeline)
        else:
            _show_run(output, find_run(application.orchestrator, run))


def _show_runs(output: Output, runs: list[WorkflowState], pipeline: str | None) -> None:
    shown: list[JsonValue] = [_run_json(run) for run in runs]
    output.answer({"runs": shown})
    if not runs:
        output.say("no runs yet" if pipeline is None else f"no runs of {pipeline} yet")
        return
    rows = [
        (
            short_run(run.id),
            f"{run.name} v{run.version}",
            run.status.value,
            show_time(run.started_at),
            _took(run),
            _describe_target(run),
        )
        for run in runs
    ]
    output.table(("run", "pipeline", "status", "started", "#took", "workspace"), rows)


def _show_run(output: Output, run: WorkflowState) -> None:
    attempts: list[JsonValue] = [_attempt_json(task) for task in run.tasks]
    output.answer(
        {"run": {**_run_json(run), "input": run.input, "output": run.output, "attempts": attempts}}
    )
    output.say(f"run {run.id}  {run.name} v{run.version}")
    took = _took(run)
    output.say(f"{run.status}  started {show_time(run.started_at)}" + (took and f", took {took}"))
    if _describe_target(run):
        output.say(f"workspace {_describe_target(run)}")
    if run.reason:
        output.say(f"reason: {run.reason}")
    output.table(
        ("step", "type", "retry", "status", "started", "#took", "from", "to"),
        [_attempt_row(task) for task in run.tasks],
    )
    for task in run.tasks:
        if task.reason:
            retry = f" (retry {task.attempt.retry_count})" if task.attempt.retry_count else ""
            output.say(f"{task.attempt.reference_name}{retry}: {task.reason}")


def _attempt_row(task: TaskState) -> tuple[str, ...]:
    seconds = task.seconds
    return (
        task.attempt.reference_name,
        task.task_type,
        str(task.attempt.retry_count),
        task.status.value,
        show_time(task.started_at),
        "" if seconds is None else show_seconds(seconds),
        short(read_ref(task.input) or ""),
        short(read_ref(task.output) or ""),
    )


def _run_json(run: WorkflowState) -> JsonObject:
    return {
        "id": run.id,
        "name": run.name,
        "version": run.version,
        "status": run.status.value,
        "reason": run.reason,
        "started_at": json_time(run.started_at),
        "ended_at": json_time(run.ended_at),
        "workspace": run.input.get("workspace"),
    }


def _attempt_json(task: TaskState) -> JsonObject:
    attempt = task.attempt
    return {
        "step": attempt.reference_name,
        "task": attempt.task_name,
        "type": task.task_type,
        "task_id": attempt.task_id,
        "retry": attempt.retry_count,
        "status": task.status.value,
        "reason": task.reason,
        "worker_id": attempt.worker_id,
        "scheduled_at": json_time(task.scheduled_at),
        "started_at": json_time(task.started_at),
        "ended_at": json_time(task.ended_at),
        "input_ref": read_ref(task.input),
        "output_ref": read_ref(task.output),
        "input": task.input,
        "output": task.output,
    }


def _took(run: WorkflowState) -> str:
    if run.ended_at is None:
        return ""
    return show_seconds((run.ended_at - run.started_at).total_seconds())


def _describe_target(run: WorkflowState) -> str:
    workspace = run.input.get("workspace")
    # A server has workflows of other people too, who may call something else a workspace.
    if not isinstance(workspace, dict) or not {"repository", "branch", "ref"} <= workspace.keys():
        return ""
    ref = short(str(workspace["ref"]))
    return f"{workspace['repository']}@{workspace['branch']} from {ref}"

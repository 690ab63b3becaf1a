"""The last words of a run: how it ended, which commits it made, and where to look next."""

from __future__ import annotations

from perago.app.run_report import RunReport
from perago.cli.context import GlobalOptions
from perago.cli.errors import ExitCode
from perago.cli.output import Output, json_time, plural, short, short_run, show_seconds
from perago.cli.session import Job, RunEnd, continue_command
from perago.domain.outcome import JsonObject, JsonValue
from perago.domain.workflow import WorkflowStatus


def show_end(output: Output, options: GlobalOptions, job: Job, end: RunEnd) -> None:
    """Tell how a run ended, to whoever asked."""
    report = end.report
    if output.as_json:
        output.event(_as_json(options, job, end))
        return
    if end.exit_code is ExitCode.INTERRUPTED:
        _show_commits(output, report)
        output.say(
            "stopped following; the run goes on without it. To follow it again:"
            if end.is_elsewhere
            else "interrupted; the run goes on with:"
        )
        output.say(f"  {continue_command(options, job, report.workflow)}")
        return
    _show_status(output, report)
    _show_commits(output, report)
    if not report.published and report.workflow.status is WorkflowStatus.COMPLETED:
        if job.pipeline.wiring.writes_workspace:
            output.say("nothing changed: no commit")
        elif job.pipeline.needs_workspace:
            output.say("no step writes the workspace: no commit")
    _show_where_to_look(output, options, report)


def _show_status(output: Output, report: RunReport) -> None:
    workflow = report.workflow
    took = ""
    if workflow.ended_at is not None:
        took = f" in {show_seconds((workflow.ended_at - workflow.started_at).total_seconds())}"
    good = workflow.status is WorkflowStatus.COMPLETED
    output.say(
        f"run {short_run(workflow.id)} {workflow.status.lower()}{took}",
        style="green" if good else "red",
    )
    failed = report.failed_step
    if failed is not None:
        tries = plural(failed.attempt.retry_count + 1, "attempt")
        output.say(f"{failed.attempt.reference_name} failed after {tries}: {failed.reason}")
    elif workflow.reason:
        output.say(workflow.reason)


def _show_commits(output: Output, report: RunReport) -> None:
    if report.published:
        output.table(
            ("step", "commit", "#changed"),
            [
                (step.reference_name, short(step.commit), plural(step.changes, "object"))
                for step in report.published
            ],
        )


def _show_where_to_look(output: Output, options: GlobalOptions, report: RunReport) -> None:
    workflow = report.workflow
    workspace = workflow.input.get("workspace")
    if isinstance(workspace, dict):
        place = f"{workspace['repository']}@{workspace['branch']}"
        output.say(f"history:  {options.command('store', 'log', place)}")
    failed = report.failed_step
    step = () if failed is None else (failed.attempt.reference_name,)
    output.say(f"logs:     {options.command('logs', short_run(workflow.id), *step)}")


def _as_json(options: GlobalOptions, job: Job, end: RunEnd) -> JsonObject:
    workflow = end.report.workflow
    interrupted = end.exit_code is ExitCode.INTERRUPTED
    commits: list[JsonValue] = [
        {
            "step": step.reference_name,
            "retry": step.retry_count,
            "repository": step.repository,
            "commit": step.commit,
            "changes": step.changes,
        }
        for step in end.report.published
    ]
    return {
        "event": "run_ended",
        "at": json_time(workflow.ended_at),
        "run": workflow.id,
        "status": workflow.status.value,
        "reason": workflow.reason,
        "interrupted": interrupted,
        "continue_with": continue_command(options, job, workflow) if interrupted else None,
        "commits": commits,
        "output": workflow.output,
    }

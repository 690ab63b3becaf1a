"""`perago logs`: what the attempts of a run wrote, and what the orchestrator noted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perago.cli.context import JsonFlag, help_text, options_of
from perago.cli.output import Output, json_time, show_time
from perago.cli.status import RunArgument
from perago.domain.errors import NotFoundInOrchestratorError, UsageError
from perago.domain.outcome import JsonObject, JsonValue
from perago.domain.workflow import TaskState, WorkflowState

if TYPE_CHECKING:
    from perago.bootstrap import Application

HELP = help_text(
    "Show the logs of a run's attempts.",
    {
        "perago logs last": "every attempt of the newest run",
        "perago logs last clean": "one step, all its attempts",
        "perago logs 3f2a9c41 clean --retry 1": "one attempt",
        "perago logs last --follow": "go on until the run is over",
    },
    "A log holds what the body printed and logged, its traceback, and the time of each phase. "
    "RUN is an id, a unique beginning of one, or `last`.",
    "On Conductor it is the task log of the server; the whole log is on the worker's host.",
)

_FOLLOW_SECONDS = 0.5
_WHERE_THE_REST_IS = (
    "note: this is the task log of the Conductor server, and what a worker wrote to this home; the "
    "whole logs of other attempts are on the hosts of their workers, in HOME/logs"
)


def logs(
    context: typer.Context,
    run: RunArgument,
    step: Annotated[
        str | None, typer.Argument(metavar="STEP", help="Only this step, by reference name.")
    ] = None,
    retry: Annotated[
        int | None, typer.Option("--retry", min=0, help="Only this attempt; 0 is the first.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more until the run is over.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Show the logs of a run's attempts."""
    from perago.app.follow import find_run
    from perago.bootstrap import open_application

    if follow and as_json:
        raise UsageError("--follow and --json exclude each other", hint="leave one of them out")
    output = Output(as_json=as_json)
    with open_application(options_of(context).settings()) as application:
        found = find_run(application.orchestrator, run)
        reader = LogReader(application, output, step, retry)
        if not follow:
            _refuse_unknown(found, step, retry)
        if as_json:
            reader.answer(found)
        else:
            reader.show(found, until_over=follow)
            if application.settings.orchestrator != "embedded":
                output.note(_WHERE_THE_REST_IS)


class LogReader:
    """Shows what is there, and remembers how far it got."""

    def __init__(
        self, application: Application, output: Output, step: str | None, retry: int | None
    ) -> None:
        self._application = application
        self._output = output
        self._step = step
        self._retry = retry
        self._seen: dict[Path, int] = {}
        self._noted: dict[str, int] = {}
        self._title = ""
        self._follows = False

    def show(self, run: WorkflowState, *, until_over: bool) -> None:
        """Print everything; then, if asked, what comes until the run is over."""
        self._follows = until_over
        self._show_new(run)
        while until_over and not run.status.is_terminal:
            self._application.clock.sleep(_FOLLOW_SECONDS)
            run = self._application.orchestrator.workflow(run.id)
            self._show_new(run)

    def answer(self, run: WorkflowState) -> None:
        """Everything as one JSON document."""
        attempts: list[JsonValue] = [self._attempt_json(task) for task in self._wanted(run)]
        self._output.answer({"run": run.id, "attempts": attempts})

    def _show_new(self, run: WorkflowState) -> None:
        orchestrator = self._application.orchestrator
        for task in self._wanted(run):
            noted = orchestrator.read_log(task.attempt.task_id)
            known = self._noted.get(task.attempt.task_id, 0)
            for line in noted[known:]:
                self._say(task, f"{show_time(line.at)} {line.text}")
            self._noted[task.attempt.task_id] = len(noted)
            is_over = not self._follows or task.status.is_terminal
            for path in self._files(task):
                for text in self._read_new(path, is_over=is_over):
                    self._say(task, text)

    def _read_new(self, path: Path, *, is_over: bool) -> Iterator[str]:
        with path.open("rb") as stream:
            stream.seek(self._seen.get(path, 0))
            for line in stream:
                if not line.endswith(b"\n") and not is_over:
                    return  # its end is still to come
                self._seen[path] = self._seen.get(path, 0) + len(line)
                yield line.decode("utf-8", "replace").rstrip("\n")

    def _say(self, task: TaskState, text: str) -> None:
        attempt = task.attempt
        title = f"== {attempt.reference_name}, retry {attempt.retry_count}, {task.status}"
        if title != self._title:
            self._title = title
            self._output.say(title, style="bold")
        self._output.say(text)

    def _attempt_json(self, task: TaskState) -> JsonObject:
        noted: list[JsonValue] = [
            {"at": json_time(line.at), "text": line.text}
            for line in self._application.orchestrator.read_log(task.attempt.task_id)
        ]
        files: list[JsonValue] = [
            {"path": str(path), "text": path.read_text(encoding="utf-8", errors="replace")}
            for path in self._files(task)
        ]
        return {
            "step": task.attempt.reference_name,
            "retry": task.attempt.retry_count,
            "status": task.status.value,
            "notes": noted,
            "files": files,
        }

    def _wanted(self, run: WorkflowState) -> list[TaskState]:
        return [task for task in run.tasks if _is_wanted(task, self._step, self._retry)]

    def _files(self, task: TaskState) -> list[Path]:
        from perago.runtime.attempt_logs import find_attempt_logs

        return find_attempt_logs(self._application.settings.logs_directory, task.attempt)


def _is_wanted(task: TaskState, step: str | None, retry: int | None) -> bool:
    return step in (None, task.attempt.reference_name) and retry in (
        None,
        task.attempt.retry_count,
    )


def _refuse_unknown(run: WorkflowState, step: str | None, retry: int | None) -> None:
    if any(_is_wanted(task, step, retry) for task in run.tasks):
        return
    which = f"step {step!r}" if step is not None else "attempt"
    if retry is not None:
        which += f" with retry {retry}"
    there = dict.fromkeys(task.attempt.reference_name for task in run.tasks)
    raise NotFoundInOrchestratorError(
        f"run {run.id} has no {which}", hint=f"so far it has: {', '.join(there) or 'none'}"
    )

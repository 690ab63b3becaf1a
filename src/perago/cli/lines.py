"""A run as lines: plain ones for logs and pipes, JSON ones for programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from types import TracebackType
from typing import Self

from perago.cli.output import Output, short, show_seconds
from perago.cli.speed import NOTHING_MOVED, Moved
from perago.cli.views import RunHeader, say_over, say_stopping, say_waiting
from perago.domain.attempt import Attempt, AttemptStatus
from perago.domain.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    ExecutorDied,
    PhaseEnded,
    Progressed,
    SparkProgressed,
    Transferred,
)
from perago.domain.ids import TaskId
from perago.domain.outcome import Completed, JsonValue, Outcome
from perago.domain.workflow import TaskState, WorkflowState

_STDERR = 2


class _MovedInPhase:
    """What each running attempt moved in the phase that it is in."""

    def __init__(self) -> None:
        self._moved: dict[TaskId, Moved] = {}

    def add(self, transfer: Transferred) -> None:
        """Count it."""
        task_id = transfer.attempt.task_id
        moved = self._moved.get(task_id, NOTHING_MOVED)
        self._moved[task_id] = moved.plus(transfer.objects, transfer.size)

    def take(self, end: PhaseEnded) -> Moved:
        """What was moved in the phase that ended; the next one begins with nothing."""
        return self._moved.pop(end.attempt.task_id, NOTHING_MOVED).after(end.seconds)

    def forget(self, attempt: Attempt) -> None:
        """Forget an attempt that is over: where it died, its phase never ended."""
        self._moved.pop(attempt.task_id, None)


class PlainView:
    """One line per event."""

    def __init__(self, output: Output, now: Callable[[], datetime]) -> None:
        self._output = output
        self._now = now
        self._in_phase = _MovedInPhase()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def run_began(self, header: RunHeader) -> None:
        """Say which run this is."""
        workflow = header.workflow
        verb = "continuing run" if header.continued else "run"
        where = ""
        if header.workspace is not None:
            where = f" on {header.workspace[0]} from {short(header.workspace[1])}"
        self._line(f"{verb} {workflow.id}: {workflow.name} v{workflow.version}{where}")
        if header.workspace is not None:
            self._line(f"store: {header.store}")
        if header.server is not None:
            self._line(f"orchestrator: {header.server}")

    def observed(self, workflow: WorkflowState) -> None:
        """Events say it all."""

    def attempt_seen(self, task: TaskState) -> None:
        """A line."""
        worker = f" on {task.attempt.worker_id}" if task.attempt.worker_id else ""
        self._begin(task.attempt, worker)

    def attempt_over(self, task: TaskState) -> None:
        """A line with what the orchestrator knows."""
        self._step(task.attempt, say_over(task))

    def step_waits(self, task: TaskState, how_to_complete: str | None) -> None:
        """Say what to do."""
        self._step(task.attempt, say_waiting(task, how_to_complete))

    def stop_requested(self, *, hurry: bool) -> None:
        """Say so at once, around every buffer and lock: this is a signal handler."""
        os.write(_STDERR, f"{say_stopping(hurry=hurry)}\n".encode())

    def warn(self, text: str) -> None:
        """Say it beside the answer."""
        self._output.note(f"warning: {text}")

    def handle(self, event: Event) -> None:
        """Write a line, if the event is worth one: there are a dozen phases."""
        match event:
            case AttemptStarted():
                self._begin(event.attempt, "")
            case Transferred():
                self._in_phase.add(event)
            case PhaseEnded():
                moved = self._in_phase.take(event)
                if moved.is_telling:
                    self._step(event.attempt, f"{event.phase} moved {moved.describe()}")
            case Progressed(fraction=fraction):
                share = "" if fraction is None else f" ({fraction:.0%})"
                self._step(event.attempt, f"{event.message}{share}")
            case SparkProgressed(line=str(line)):
                self._step(event.attempt, line)
            case AttemptEnded():
                self._in_phase.forget(event.attempt)
                self._step(event.attempt, _describe_end(event))
            case ExecutorDied(attempt=attempt, how=how):
                where = f" in {attempt.reference_name}" if attempt is not None else ""
                self._line(f"an executor died{where}: {how}")
            case _:
                pass

    def _begin(self, attempt: Attempt, where: str) -> None:
        retry = f" again (retry {attempt.retry_count})" if attempt.retry_count else ""
        self._step(attempt, f"started{where}{retry}")

    def _step(self, attempt: Attempt, text: str) -> None:
        self._line(f"{attempt.reference_name}: {text}")

    def _line(self, text: str) -> None:
        self._output.say(f"{self._now().astimezone():%H:%M:%S} {text}")


class JsonView:
    """One JSON object per event and line; `event` says which, `run` and `step` whose."""

    def __init__(self, output: Output, now: Callable[[], datetime]) -> None:
        self._output = output
        self._now = now
        self._run = ""
        self._in_phase = _MovedInPhase()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def run_began(self, header: RunHeader) -> None:
        """The first line."""
        workflow = header.workflow
        self._run = workflow.id
        workspace: JsonValue = None
        if header.workspace is not None:
            workspace = {"target": header.workspace[0], "ref": header.workspace[1]}
        store = header.store
        self._emit(
            "run_began",
            name=workflow.name,
            version=workflow.version,
            continued=header.continued,
            workspace=workspace,
            store={"kind": store.kind, "place": store.place, "fencing": store.fencing.value},
            orchestrator=header.server,
        )

    def observed(self, workflow: WorkflowState) -> None:
        """Events say it all."""

    def attempt_seen(self, task: TaskState) -> None:
        """The same line as for one that runs here."""
        self._emit_start(task.attempt)

    def attempt_over(self, task: TaskState) -> None:
        """The same line as for one that ran here, but for what only its worker knows."""
        if task.status is AttemptStatus.COMPLETED:
            self._emit("step_completed", task.attempt, output=task.output)
            return
        status, reason = task.status.value, task.reason
        self._emit("step_failed", task.attempt, status=status, phase=None, reason=reason)

    def step_waits(self, task: TaskState, how_to_complete: str | None) -> None:
        """A line."""
        self._emit(
            "step_waits",
            step=task.attempt.reference_name,
            type=task.task_type,
            complete_with=how_to_complete,
        )

    def stop_requested(self, *, hurry: bool) -> None:
        """On stderr: a signal handler must not write into the middle of a JSON line."""
        os.write(_STDERR, f"{say_stopping(hurry=hurry)}\n".encode())

    def warn(self, text: str) -> None:
        """A line."""
        self._emit("warning", message=text)

    def handle(self, event: Event) -> None:
        """Write a line. Of a transfer there are at most ten a second, of Spark about one."""
        match event:
            case AttemptStarted():
                self._emit_start(event.attempt)
            case PhaseEnded():
                self._emit_phase(event)
            case Transferred(objects=objects, size=size):
                self._in_phase.add(event)
                self._emit("transferred", event.attempt, objects=objects, bytes=size)
            case Progressed(message=message, fraction=fraction):
                self._emit("progress", event.attempt, message=message, fraction=fraction)
            case SparkProgressed(progress=progress):
                self._emit("spark_progress", event.attempt, **asdict(progress))
            case AttemptEnded():
                self._in_phase.forget(event.attempt)
                self._emit_end(event.attempt, event.outcome)
            case ExecutorDied(how=how):
                self._emit("executor_died", event.attempt, how=how)
            case _:
                pass

    def _emit_start(self, attempt: Attempt) -> None:
        self._emit("step_started", attempt, task=attempt.task_name, task_id=attempt.task_id)

    def _emit_phase(self, end: PhaseEnded) -> None:
        """Its time; with its speed, where something was moved."""
        moved = self._in_phase.take(end)
        speed = moved.as_json() if moved.objects else {"seconds": round(end.seconds, 6)}
        self._emit("phase_ended", end.attempt, phase=end.phase.value, **speed)

    def _emit_end(self, attempt: Attempt, outcome: Outcome | None) -> None:
        match outcome:
            case Completed():
                self._emit("step_completed", attempt, output=outcome.output)
            case None:
                self._emit("step_given_up", attempt)
            case _:
                self._emit(
                    "step_failed",
                    attempt,
                    status=outcome.status.value,
                    phase=outcome.phase.value,
                    reason=outcome.reason,
                )

    def _emit(self, event: str, attempt: Attempt | None = None, **fields: JsonValue) -> None:
        whose: dict[str, JsonValue] = {"event": event, "at": self._now().isoformat()}
        whose["run"] = self._run
        if attempt is not None:
            whose |= {"step": attempt.reference_name, "retry": attempt.retry_count}
        self._output.event(whose | fields)


def _describe_end(end: AttemptEnded) -> str:
    """What an attempt cost, or why it failed."""
    took, tally = show_seconds(end.seconds), end.tally
    match end.outcome:
        case Completed():
            moved = Moved(objects=sum(tally.objects.values()), size=sum(tally.size.values()))
            return f"completed in {took}, {moved}" if moved.objects else f"completed in {took}"
        case None:
            return f"given up after {took}"
        case failure:
            return f"failed in {failure.phase} after {took}: {failure.reason}"

"""A run as lines: plain ones for logs and pipes, JSON ones for programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from types import TracebackType
from typing import Self

from perago.cli.board import Board
from perago.cli.output import Output, short, show_seconds
from perago.cli.speed import NOTHING_MOVED, Moved
from perago.cli.views import RunHeader, say_over, say_stopping, say_waiting
from perago.domain.attempt import Attempt, AttemptStatus
from perago.domain.ids import TaskId
from perago.domain.outcome import Completed, JsonValue, Outcome, Phase
from perago.domain.spark_progress import SparkProgress
from perago.domain.workflow import TaskState, WorkflowState
from perago.runtime.events import IgnoredEvents

_STDERR = 2


class PlainView(IgnoredEvents):
    """One line per event."""

    def __init__(self, output: Output, board: Board, now: Callable[[], datetime]) -> None:
        self._output = output
        self._board = board
        self._now = now

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
        """Keep the board right; a line is only made of an event."""
        self._board.observe(workflow)

    def attempt_seen(self, task: TaskState) -> None:
        """A line."""
        worker = f" on {task.attempt.worker_id}" if task.attempt.worker_id else ""
        self._begin(task.attempt, worker)

    def attempt_over(self, task: TaskState) -> None:
        """A line with what the orchestrator knows."""
        self._line(f"{task.attempt.reference_name}: {say_over(task)}")

    def step_waits(self, task: TaskState, how_to_complete: str | None) -> None:
        """Say what to do."""
        self._line(f"{task.attempt.reference_name}: {say_waiting(task, how_to_complete)}")

    def stop_requested(self, *, hurry: bool) -> None:
        """Say so at once, around every buffer and lock: this is a signal handler."""
        os.write(_STDERR, f"{say_stopping(hurry=hurry)}\n".encode())

    def warn(self, text: str) -> None:
        """Say it beside the answer."""
        self._output.note(f"warning: {text}")

    def attempt_started(self, attempt: Attempt) -> None:
        """A line."""
        self._begin(attempt, "")

    def phase_started(self, attempt: Attempt, phase: Phase) -> None:
        """No line: there are a dozen phases."""
        self._board.enter(attempt, phase)

    def phase_ended(self, attempt: Attempt, phase: Phase, seconds: float) -> None:
        """A line where it took a transfer long enough for its speed to mean something."""
        moved = self._board.leave(attempt, seconds)
        if moved.is_telling:
            self._line(f"{attempt.reference_name}: {phase} moved {moved.describe()}")

    def transferred(self, attempt: Attempt, objects: int, size: int) -> None:
        """Told when the attempt ends."""
        self._board.move(attempt, objects, size)

    def progressed(self, attempt: Attempt, message: str, fraction: float | None) -> None:
        """What the body says is worth a line."""
        share = "" if fraction is None else f" ({fraction:.0%})"
        self._line(f"{attempt.reference_name}: {message}{share}")

    def spark_progressed(
        self,
        attempt: Attempt,
        progress: SparkProgress,  # noqa: ARG002 - the line says it
        line: str | None,
    ) -> None:
        """A line now and then."""
        if line is not None:
            self._line(f"{attempt.reference_name}: {line}")

    def attempt_ended(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """A line with what it cost, or why it failed."""
        took = show_seconds(self._board.end(attempt, outcome))
        name, line = attempt.reference_name, self._board.line(attempt.reference_name)
        match outcome:
            case Completed():
                moved = f", {line.moved}" if line.moved.objects else ""
                self._line(f"{name}: completed in {took}{moved}")
            case None:
                self._line(f"{name}: given up after {took}")
            case _:
                self._line(f"{name}: failed in {outcome.phase} after {took}: {outcome.reason}")

    def executor_died(self, attempt: Attempt | None, how: str) -> None:
        """A line."""
        where = f" in {attempt.reference_name}" if attempt is not None else ""
        self._line(f"an executor died{where}: {how}")

    def _begin(self, attempt: Attempt, where: str) -> None:
        self._board.start(attempt)
        retry = f" again (retry {attempt.retry_count})" if attempt.retry_count else ""
        self._line(f"{attempt.reference_name}: started{where}{retry}")

    def _line(self, text: str) -> None:
        self._output.say(f"{self._now().astimezone():%H:%M:%S} {text}")


class JsonView(IgnoredEvents):
    """One JSON object per event and line; `event` says which, `run` and `step` whose."""

    def __init__(self, output: Output, now: Callable[[], datetime]) -> None:
        self._output = output
        self._now = now
        self._run = ""
        self._moved: dict[TaskId, Moved] = {}

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
        self.attempt_started(task.attempt)

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

    def attempt_started(self, attempt: Attempt) -> None:
        """A line."""
        self._emit("step_started", attempt, task=attempt.task_name, task_id=attempt.task_id)

    def phase_started(self, attempt: Attempt, phase: Phase) -> None:
        """Told when it ends."""

    def phase_ended(self, attempt: Attempt, phase: Phase, seconds: float) -> None:
        """A line; with its speed, where something was moved."""
        moved = self._moved.pop(attempt.task_id, NOTHING_MOVED).after(seconds)
        speed = moved.as_json() if moved.objects else {"seconds": round(seconds, 6)}
        self._emit("phase_ended", attempt, phase=phase.value, **speed)

    def transferred(self, attempt: Attempt, objects: int, size: int) -> None:
        """A line; at most ten a second."""
        so_far = self._moved.get(attempt.task_id, NOTHING_MOVED)
        self._moved[attempt.task_id] = so_far.plus(objects, size)
        self._emit("transferred", attempt, objects=objects, bytes=size)

    def progressed(self, attempt: Attempt, message: str, fraction: float | None) -> None:
        """A line."""
        self._emit("progress", attempt, message=message, fraction=fraction)

    def spark_progressed(
        self,
        attempt: Attempt,
        progress: SparkProgress,
        line: str | None,  # noqa: ARG002 - it says the same in words
    ) -> None:
        """A line; about one a second."""
        self._emit("spark_progress", attempt, **asdict(progress))

    def attempt_ended(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """A line with the output or the reason."""
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

    def executor_died(self, attempt: Attempt | None, how: str) -> None:
        """A line."""
        self._emit("executor_died", attempt, how=how)

    def _emit(self, event: str, attempt: Attempt | None = None, **fields: JsonValue) -> None:
        whose: dict[str, JsonValue] = {"event": event, "at": self._now().isoformat()}
        whose["run"] = self._run
        if attempt is not None:
            whose |= {"step": attempt.reference_name, "retry": attempt.retry_count}
        self._output.event(whose | fields)

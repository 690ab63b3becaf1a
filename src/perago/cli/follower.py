"""Follows one run among everything that a worker does.

Invariant: a view hears of its own run only. A worker serves every unfinished run that has its
tasks, because an orchestrator hands out tasks, not runs.
"""

from __future__ import annotations

from collections.abc import Callable

from perago.cli.views import RunView
from perago.domain.attempt import Attempt, AttemptStatus
from perago.domain.errors import OrchestratorUnavailableError
from perago.domain.ids import TaskId, WorkflowId
from perago.domain.outcome import Outcome, Phase
from perago.domain.spark_progress import SparkProgress
from perago.domain.workflow import TaskState, WorkflowState
from perago.ports import Orchestrator
from perago.runtime.events import IgnoredEvents


class RunFollower(IgnoredEvents):
    """Passes the events of one run on, and asks the orchestrator how that run stands."""

    def __init__(
        self,
        view: RunView,
        orchestrator: Orchestrator,
        how_to_complete: Callable[[WorkflowId, str], str],
        on_death: Callable[[str], None] | None = None,
    ) -> None:
        self._view = view
        self._orchestrator = orchestrator
        self._how_to_complete = how_to_complete
        self._on_death = on_death
        self._run: WorkflowId | None = None
        self._others: set[WorkflowId] = set()
        self._waiting: set[TaskId] = set()

    def follow(self, workflow: WorkflowState) -> None:
        """From now on, this is the run."""
        self._run = workflow.id
        self.look(workflow)

    def is_done(self) -> bool:
        """Whether the run is over; asked whenever no attempt is running."""
        assert self._run is not None
        try:
            workflow = self._orchestrator.workflow(self._run)
        except OrchestratorUnavailableError as error:
            self._view.warn(error.message)
            return False
        self.look(workflow)
        return workflow.status.is_terminal

    def look(self, workflow: WorkflowState) -> None:
        """Show how the run stands, and say once what waits for somebody."""
        self._view.observed(workflow)
        for task in workflow.tasks:
            if _waits(task) and task.attempt.task_id not in self._waiting:
                self._waiting.add(task.attempt.task_id)
                self._view.step_waits(task, self._complete_command(task))

    def _complete_command(self, task: TaskState) -> str | None:
        if task.task_type != "HUMAN":
            return None
        return self._how_to_complete(task.attempt.workflow_id, task.attempt.reference_name)

    # -- what the worker says

    def attempt_started(self, attempt: Attempt) -> None:
        """Pass it on, or say once that another run is served too."""
        if self._is_ours(attempt):
            self._view.attempt_started(attempt)
        elif attempt.workflow_id not in self._others:
            self._others.add(attempt.workflow_id)
            self._view.warn(f"this worker also serves the unfinished run {attempt.workflow_id}")

    def phase_started(self, attempt: Attempt, phase: Phase) -> None:
        """Pass it on."""
        if self._is_ours(attempt):
            self._view.phase_started(attempt, phase)

    def phase_ended(self, attempt: Attempt, phase: Phase, seconds: float) -> None:
        """Pass it on."""
        if self._is_ours(attempt):
            self._view.phase_ended(attempt, phase, seconds)

    def transferred(self, attempt: Attempt, objects: int, size: int) -> None:
        """Pass it on."""
        if self._is_ours(attempt):
            self._view.transferred(attempt, objects, size)

    def progressed(self, attempt: Attempt, message: str, fraction: float | None) -> None:
        """Pass it on."""
        if self._is_ours(attempt):
            self._view.progressed(attempt, message, fraction)

    def spark_progressed(self, attempt: Attempt, progress: SparkProgress, line: str | None) -> None:
        """Pass it on."""
        if self._is_ours(attempt):
            self._view.spark_progressed(attempt, progress, line)

    def attempt_ended(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """Pass it on."""
        if self._is_ours(attempt):
            self._view.attempt_ended(attempt, outcome)

    def executor_died(self, attempt: Attempt | None, how: str) -> None:
        """Pass it on; an executor that died with no attempt is everybody's."""
        if attempt is None or self._is_ours(attempt):
            self._view.executor_died(attempt, how)
        if attempt is not None and self._is_ours(attempt) and self._on_death is not None:
            self._on_death(attempt.reference_name)

    def _is_ours(self, attempt: Attempt) -> bool:
        return attempt.workflow_id == self._run


def _waits(task: TaskState) -> bool:
    return task.task_type in ("HUMAN", "WAIT") and task.status is AttemptStatus.IN_PROGRESS

"""Follows one run among everything that a worker does.

Invariant: a view hears of its own run only. A worker serves every unfinished run that has its
tasks, because an orchestrator hands out tasks, not runs.
"""

from __future__ import annotations

from collections.abc import Callable

from perago.cli.views import RunView
from perago.domain.attempt import Attempt, AttemptStatus
from perago.domain.errors import OrchestratorUnavailableError
from perago.domain.events import AttemptStarted, Event, ExecutorDied, Polled, PollFailed
from perago.domain.ids import TaskId, WorkflowId
from perago.domain.workflow import TaskState, WorkflowState
from perago.ports import Orchestrator


class RunFollower:
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

    def handle(self, event: Event) -> None:
        """Show what concerns the run. An idle executor's death concerns everybody."""
        match event:
            case Polled() | PollFailed():
                pass
            case ExecutorDied(attempt=attempt):
                if attempt is None or self._is_ours(attempt):
                    self._view.handle(event)
                if attempt is not None and self._is_ours(attempt) and self._on_death is not None:
                    self._on_death(attempt.reference_name)
            case _ if self._is_ours(event.attempt):
                self._view.handle(event)
            case AttemptStarted():
                self._mention(event.attempt.workflow_id)
            case _:
                pass

    def _mention(self, run: WorkflowId) -> None:
        """Say once that the worker serves another run."""
        if run not in self._others:
            self._others.add(run)
            self._view.warn(f"this worker also serves the unfinished run {run}")

    def _is_ours(self, attempt: Attempt) -> bool:
        return attempt.workflow_id == self._run


def _waits(task: TaskState) -> bool:
    return task.task_type in ("HUMAN", "WAIT") and task.status is AttemptStatus.IN_PROGRESS

"""Follows a run that workers elsewhere carry out, by asking the orchestrator again and again.

Invariant: looking changes nothing. Whoever stops watching leaves the run as it is, and each event
is told once however often it is seen.
"""

from __future__ import annotations

from collections.abc import Callable

from perago.cli.follower import RunFollower
from perago.cli.views import RunView
from perago.domain.attempt import AttemptStatus
from perago.domain.errors import NotFoundInOrchestratorError, OrchestratorUnavailableError
from perago.domain.events import Progressed
from perago.domain.ids import TaskId
from perago.domain.workflow import TaskState, WorkflowState
from perago.ports import Clock, Orchestrator

_SHORTEST_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 2.0
_PATIENCE_SECONDS = 10.0
"""How long a step may wait for a worker before somebody is told that there may be none."""

_WITHOUT_WORK = ("FORK_JOIN", "JOIN", "HUMAN", "WAIT")


class RunWatcher:
    """Tells a view what became of a run since the last look; `last` is what was seen last."""

    def __init__(
        self,
        view: RunView,
        follower: RunFollower,
        *,
        orchestrator: Orchestrator,
        clock: Clock,
        how_to_start: Callable[[str], str],
    ) -> None:
        """`how_to_start` says what to do about a task, by its name, that no worker takes."""
        self._view = view
        self._follower = follower
        self._orchestrator = orchestrator
        self._clock = clock
        self._how_to_start = how_to_start
        self._begun: set[TaskId] = set()
        self._over: set[TaskId] = set()
        self._lines: dict[TaskId, int] = {}
        self._waiting_since: dict[TaskId, float] = {}
        self._missed: set[str] = set()
        self._is_cut_off = False
        self.last: WorkflowState | None = None

    def watch(self, workflow: WorkflowState, *, continued: bool = False) -> WorkflowState:
        """Look until the run is over; of one that is continued, only what is new is told."""
        if continued:
            self._skip_the_past(workflow)
        self._follower.follow(workflow)
        self.look(workflow)
        pause = _SHORTEST_PAUSE_SECONDS
        while not workflow.status.is_terminal:
            self._clock.sleep(pause)
            before, workflow = workflow, self._ask(workflow)
            self.look(workflow)
            is_quiet = workflow == before
            pause = (
                min(pause * 1.5, _LONGEST_PAUSE_SECONDS) if is_quiet else _SHORTEST_PAUSE_SECONDS
            )
        return workflow

    def look(self, workflow: WorkflowState) -> None:
        """Tell what is new."""
        self.last = workflow
        for task in workflow.tasks:
            if task.task_type not in _WITHOUT_WORK:
                self._look_at(task)
        self._look_for_workers(workflow)
        # Last: what the orchestrator says stands.
        self._follower.look(workflow)

    def _ask(self, before: WorkflowState) -> WorkflowState:
        """How the run stands; as before, while nobody answers."""
        try:
            found = self._orchestrator.workflow(before.id)
        except OrchestratorUnavailableError as error:
            if not self._is_cut_off:
                self._view.warn(f"{error.message}; the run goes on meanwhile")
            self._is_cut_off = True
            return before
        self._is_cut_off = False
        return found

    def _skip_the_past(self, workflow: WorkflowState) -> None:
        for task in workflow.tasks:
            if task.status.is_terminal:
                self._begun.add(task.attempt.task_id)
                self._over.add(task.attempt.task_id)

    def _look_at(self, task: TaskState) -> None:
        task_id = task.attempt.task_id
        if task_id in self._over or task.status is AttemptStatus.SCHEDULED:
            return
        # One that was never polled, and was cancelled or timed out, has not begun.
        if task_id not in self._begun and task.started_at is not None:
            self._begun.add(task_id)
            self._view.attempt_seen(task)
        if task.task_type == "SIMPLE":
            self._tell_log(task)
        if task.status.is_terminal:
            self._over.add(task_id)
            self._view.attempt_over(task)

    def _tell_log(self, task: TaskState) -> None:
        """What its body said, which a worker writes to the task's log."""
        attempt = task.attempt
        try:
            lines = self._orchestrator.read_log(attempt.task_id)
        except (OrchestratorUnavailableError, NotFoundInOrchestratorError):
            return  # the next look may have more luck, and the run does not depend on it
        for line in lines[self._lines.get(attempt.task_id, 0) :]:
            self._view.handle(Progressed(attempt=attempt, message=line.text, fraction=None))
        self._lines[attempt.task_id] = len(lines)

    def _look_for_workers(self, workflow: WorkflowState) -> None:
        """Say once for each task that nobody seems to take it."""
        simple = [task for task in workflow.tasks if task.task_type == "SIMPLE"]
        is_served = any(task.status is AttemptStatus.IN_PROGRESS for task in simple)
        now = self._clock.elapsed()
        for task in simple:
            attempt = task.attempt
            # A retry waits for its delay first.
            if task.status is not AttemptStatus.SCHEDULED or attempt.retry_count:
                continue
            since = self._waiting_since.setdefault(attempt.task_id, now)
            is_late = now - since >= _PATIENCE_SECONDS
            if is_late and not is_served and attempt.task_name not in self._missed:
                self._missed.add(attempt.task_name)
                self._view.warn(
                    f"{attempt.reference_name} has waited {now - since:.0f} s for a worker: "
                    f"{self._how_to_start(attempt.task_name)}"
                )

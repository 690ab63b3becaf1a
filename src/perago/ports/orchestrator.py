"""Who decides when a task runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perago.domain.attempt import Attempt, AttemptSnapshot
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.outcome import JsonObject, Outcome
from perago.domain.workflow import LogLine, PolledTask, WorkflowState


class Orchestrator(Protocol):
    """Runs workflow definitions and hands out attempts.

    The contract follows what real Conductor does. In particular: a heartbeat for an attempt that
    is over is answered like any other and changes nothing; only `snapshot` tells.
    Every method may raise `OrchestratorUnavailableError`.
    """

    @property
    def max_output_bytes(self) -> int:
        """The largest task output, as UTF-8 JSON, that a report may carry."""
        ...

    def register_task(self, definition: JsonObject) -> None:
        """Store a TaskDef, replacing one of that name."""
        ...

    def register_workflow(self, definition: JsonObject) -> None:
        """Store a WorkflowDef under its name and version, replacing that version.

        Raises `InvalidDefinitionError` naming what it cannot run. Running instances keep the
        definition that they were started with.
        """
        ...

    def find_task_definition(self, name: str) -> JsonObject | None:
        """The registered TaskDef of that name, as the orchestrator keeps it.

        It may have more fields than were registered: the orchestrator's defaults.
        """
        ...

    def find_workflow_definition(self, name: str, version: int | None = None) -> JsonObject | None:
        """The given, or the newest, version of a registered WorkflowDef; likewise."""
        ...

    def start_workflow(
        self, name: str, *, workflow_input: JsonObject, version: int | None = None
    ) -> WorkflowId:
        """Start an instance of the newest, or the given, version."""
        ...

    def poll(
        self,
        task_names: Sequence[str],
        *,
        worker_id: WorkerId,
        count: int,
        wait_seconds: float,
    ) -> list[PolledTask]:
        """Hand out up to `count` scheduled attempts, oldest first; wait that long for the first.

        Each becomes IN_PROGRESS, held by this worker, its poll count one higher, its lease
        running. No attempt is handed out twice, unless it was made available again.
        """
        ...

    def snapshot(self, task_id: TaskId) -> AttemptSnapshot:
        """What the orchestrator says of a task id now, never from a cache.

        An unknown id raises `NotFoundInOrchestratorError`.
        """
        ...

    def heartbeat(self, attempt: Attempt) -> None:
        """Start the attempt's lease anew; ignored when it is no longer in progress."""
        ...

    def hand_back(self, attempt: Attempt) -> None:
        """Give an attempt that was polled, but not begun, to whoever polls next, at no retry.

        It is then SCHEDULED, and when it is polled again it has the same task id, a poll count
        one higher, and its overall time-out still running: the giver's attempt is stale. Ignored
        when it is stale already.
        """
        ...

    def report(self, attempt: Attempt, outcome: Outcome) -> str | None:
        """Report how an attempt ended, by its task id, never by its reference name.

        The report is sent only while this delivery is the current one, by the rules of
        `decide_report`. Returns None when it was accepted, now or before, else why the delivery is
        stale. The embedded engine compares inside its transaction; on Conductor it is a read just
        before the report, so a gap of one request remains.

        A failure is retried as its TaskDef says, as a new task id with `retry_count` + 1 and
        `seq` + 1. A terminal failure is not retried. Also completes a HUMAN task, which no worker
        holds.
        """
        ...

    def append_log(self, task_id: TaskId, text: str) -> None:
        """Add a line to a task's log."""
        ...

    def read_log(self, task_id: TaskId) -> list[LogLine]:
        """The log of a task, oldest first."""
        ...

    def workflow(self, workflow_id: WorkflowId) -> WorkflowState:
        """One instance with all its attempts."""
        ...

    def find_root(self, workflow_id: WorkflowId) -> WorkflowId:
        """The outermost instance that this one is a sub-workflow of; itself where it is none."""
        ...

    def workflows(self, *, limit: int = 50, name: str | None = None) -> list[WorkflowState]:
        """The newest instances, newest first; with `name`, of that workflow only."""
        ...

    def workflow_ids(
        self, *, limit: int, unfinished: bool = False, name: str | None = None
    ) -> list[WorkflowId]:
        """The ids of the newest instances, newest first; with `unfinished`, of those not over.

        Few calls, where `workflows` may need one for every instance.
        """
        ...

    def terminate(self, workflow_id: WorkflowId, reason: str) -> None:
        """End an instance: its open attempts become CANCELED. Ignored when it is over."""
        ...

"""What the orchestrator needs from the place that keeps its state."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from perago.adapters.embedded.orchestrator.engine.instance import Instance
from perago.domain.ids import TaskId, WorkflowId
from perago.domain.outcome import JsonObject
from perago.domain.workflow import LogLine


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptClock:
    """What turns `Clock.elapsed` into the engine's time, during one boot of the machine."""

    boot: str
    offset_microseconds: int


class InstanceStore(Protocol):
    """Where definitions, instances and logs are kept. It keeps; it decides nothing.

    Every other method is called inside `reading()` or `writing()`.
    """

    def reading(self) -> AbstractContextManager[None]:
        """A consistent view for as long as the block lasts."""
        ...

    def writing(self) -> AbstractContextManager[None]:
        """The same, alone among all writers; kept when the block ends, undone when it raises."""
        ...

    def clock(self) -> KeptClock | None:
        """The clock that was kept last."""
        ...

    def put_clock(self, clock: KeptClock) -> None:
        """Keep another one."""
        ...

    def put_task_definition(self, name: str, source: JsonObject) -> None:
        """Keep a TaskDef, replacing one of that name."""
        ...

    def task_definition(self, name: str) -> JsonObject | None:
        """The TaskDef of that name."""
        ...

    def put_workflow_definition(self, name: str, version: int, source: JsonObject) -> None:
        """Keep a WorkflowDef, replacing that version."""
        ...

    def workflow_definition(self, name: str, version: int | None) -> JsonObject | None:
        """That version of a WorkflowDef, or the newest."""
        ...

    def add(self, instance: Instance) -> None:
        """Keep a new instance."""
        ...

    def update(self, before: Instance, after: Instance) -> None:
        """Keep the new state of an instance."""
        ...

    def instance(self, workflow_id: WorkflowId) -> Instance | None:
        """The instance of that id."""
        ...

    def owner_of(self, task_id: TaskId) -> WorkflowId | None:
        """The instance that an attempt belongs to."""
        ...

    def newest(self, limit: int, *, unfinished: bool, name: str | None) -> list[WorkflowId]:
        """The instances started last, newest first; with `unfinished`, of those not over, and
        with `name`, of that workflow.
        """
        ...

    def due(self, now: datetime) -> WorkflowId | None:
        """An instance whose wake-up has come."""
        ...

    def next_available(
        self, task_names: Sequence[str], now: datetime
    ) -> tuple[WorkflowId, TaskId] | None:
        """The attempt of these tasks that has been waiting for a worker for the longest."""
        ...

    def count_in_progress(self, task_name: str) -> int:
        """How many attempts of a task are held by workers."""
        ...

    def count_started_since(self, task_name: str, since: datetime) -> int:
        """How many attempts of a task were handed out after that moment."""
        ...

    def append_log(self, task_id: TaskId, line: LogLine) -> None:
        """Keep a line of an attempt's log."""
        ...

    def log(self, task_id: TaskId) -> list[LogLine]:
        """The lines of an attempt's log, oldest first."""
        ...

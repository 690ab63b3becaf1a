"""The Orchestrator port in memory: the embedded engine over dictionaries."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from perago.adapters.embedded.orchestrator.engine.deadlines import plan_wake_up
from perago.adapters.embedded.orchestrator.engine.instance import Instance, TaskRecord
from perago.adapters.embedded.orchestrator.engine_orchestrator import EngineOrchestrator
from perago.adapters.embedded.orchestrator.instance_store import KeptClock
from perago.domain.attempt import AttemptStatus
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.outcome import JsonObject
from perago.domain.workflow import LogLine, PolledTask, WorkflowState
from perago.ports.clock import Clock


class MemoryInstances:
    """The `InstanceStore` in dictionaries; one lock for readers and writers."""

    def __init__(self) -> None:
        self.instances: dict[WorkflowId, Instance] = {}
        self._lock = threading.RLock()
        self._task_definitions: dict[str, JsonObject] = {}
        self._workflow_definitions: dict[str, dict[int, JsonObject]] = {}
        self._logs: dict[TaskId, list[LogLine]] = {}
        self._clock: KeptClock | None = None

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._lock:
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._lock:
            before = dict(self.instances)
            try:
                yield
            except BaseException:
                self.instances = before
                raise

    def clock(self) -> KeptClock | None:
        return self._clock

    def put_clock(self, clock: KeptClock) -> None:
        self._clock = clock

    def put_task_definition(self, name: str, source: JsonObject) -> None:
        self._task_definitions[name] = source

    def task_definition(self, name: str) -> JsonObject | None:
        return self._task_definitions.get(name)

    def put_workflow_definition(self, name: str, version: int, source: JsonObject) -> None:
        self._workflow_definitions.setdefault(name, {})[version] = source

    def workflow_definition(self, name: str, version: int | None) -> JsonObject | None:
        versions = self._workflow_definitions.get(name, {})
        return versions.get(max(versions, default=0) if version is None else version)

    def add(self, instance: Instance) -> None:
        self.instances[instance.id] = instance

    def update(self, before: Instance, after: Instance) -> None:
        assert self.instances[before.id] is before
        self.instances[after.id] = after

    def instance(self, workflow_id: WorkflowId) -> Instance | None:
        return self.instances.get(workflow_id)

    def owner_of(self, task_id: TaskId) -> WorkflowId | None:
        found = (instance.id for instance in self.instances.values() if instance.find(task_id))
        return next(found, None)

    def newest(self, limit: int, *, unfinished: bool, name: str | None) -> list[WorkflowId]:
        wanted = [
            one.id
            for one in reversed(self.instances.values())
            if not (unfinished and one.status.is_terminal) and name in (None, one.definition.name)
        ]
        return wanted[:limit]

    def due(self, now: datetime) -> WorkflowId | None:
        for instance in self.instances.values():
            wake_up = plan_wake_up(instance)
            if wake_up is not None and wake_up <= now:
                return instance.id
        return None

    def next_available(
        self, task_names: Sequence[str], now: datetime
    ) -> tuple[WorkflowId, TaskId] | None:
        waiting = [
            (record.available_at, number, record.seq, instance.id, record.task_id)
            for number, instance in enumerate(self.instances.values())
            for record in instance.tasks
            if record.status is AttemptStatus.SCHEDULED
            and record.task_name in task_names
            and record.available_at <= now
        ]
        return min(waiting)[-2:] if waiting else None

    def count_in_progress(self, task_name: str) -> int:
        statuses = [record.status for record in self._attempts_of(task_name)]
        return statuses.count(AttemptStatus.IN_PROGRESS)

    def count_started_since(self, task_name: str, since: datetime) -> int:
        starts = [record.started_at for record in self._attempts_of(task_name)]
        return sum(1 for start in starts if start is not None and start > since)

    def append_log(self, task_id: TaskId, line: LogLine) -> None:
        self._logs.setdefault(task_id, []).append(line)

    def log(self, task_id: TaskId) -> list[LogLine]:
        return list(self._logs.get(task_id, []))

    def _attempts_of(self, task_name: str) -> Iterator[TaskRecord]:
        for instance in self.instances.values():
            yield from (record for record in instance.tasks if record.task_name == task_name)


class MemoryOrchestrator(EngineOrchestrator):
    """For tests in one process: the same engine as the embedded orchestrator, no file.

    What it gives out are copies, as those of a server would be.
    """

    def __init__(self, clock: Clock) -> None:
        self.instances = MemoryInstances()
        super().__init__(self.instances, clock)

    def poll(
        self,
        task_names: Sequence[str],
        *,
        worker_id: WorkerId,
        count: int,
        wait_seconds: float,
    ) -> list[PolledTask]:
        return copy.deepcopy(
            super().poll(task_names, worker_id=worker_id, count=count, wait_seconds=wait_seconds)
        )

    def find_task_definition(self, name: str) -> JsonObject | None:
        return copy.deepcopy(super().find_task_definition(name))

    def find_workflow_definition(self, name: str, version: int | None = None) -> JsonObject | None:
        return copy.deepcopy(super().find_workflow_definition(name, version))

    def workflow(self, workflow_id: WorkflowId) -> WorkflowState:
        return copy.deepcopy(super().workflow(workflow_id))

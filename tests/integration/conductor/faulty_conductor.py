"""A client of a real Conductor whose every byte passes a proxy that can spoil it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from perago.adapters.conductor import ConductorConnection, ConductorOrchestrator
from perago.domain.ids import WorkerId, WorkflowId
from perago.domain.workflow import PolledTask
from tests.fault_proxy import FaultProxy

WORKER = WorkerId("worker-1")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyConductor:
    """The client under test, the proxy before it, and a client that goes past the proxy.

    `endpoint` is the server's own.
    """

    client: ConductorOrchestrator
    direct: ConductorOrchestrator
    proxy: FaultProxy
    endpoint: str
    suffix: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def name(self, word: str) -> str:
        return f"{word}-{self.suffix}"

    def register(self, *words: str) -> None:
        """A TaskDef and a workflow of one step for each word."""
        for word in words:
            name = self.name(word)
            self.direct.register_task(
                {"name": name, "ownerEmail": "a@example.com", "responseTimeoutSeconds": 600}
            )
            self.direct.register_workflow(
                {
                    "name": name,
                    "version": 1,
                    "schemaVersion": 2,
                    "ownerEmail": "a@example.com",
                    "timeoutSeconds": 0,
                    "tasks": [{"name": name, "taskReferenceName": "only", "type": "SIMPLE"}],
                }
            )

    def start(self, word: str = "task") -> WorkflowId:
        return self.direct.start_workflow(self.name(word), workflow_input={})

    def poll(self, *words: str, count: int = 1, wait_seconds: float = 0.0) -> list[PolledTask]:
        names = [self.name(word) for word in words or ("task",)]
        return self.client.poll(names, worker_id=WORKER, count=count, wait_seconds=wait_seconds)

    def take(self) -> PolledTask:
        """One task of a new workflow."""
        self.start()
        (task,) = self.poll(wait_seconds=5)
        return task


@contextmanager
def faulty_conductor(
    endpoint: str, *, timeout_seconds: float = 30.0, retry_seconds: float = 10.0
) -> Iterator[FaultyConductor]:
    """A client with `task` registered, and its proxy."""
    with FaultProxy(endpoint) as proxy:
        connection = ConductorConnection(
            url=proxy.endpoint, timeout_seconds=timeout_seconds, retry_seconds=retry_seconds
        )
        with (
            ConductorOrchestrator(connection) as client,
            ConductorOrchestrator(ConductorConnection(url=endpoint)) as direct,
        ):
            faulty = FaultyConductor(client=client, direct=direct, proxy=proxy, endpoint=endpoint)
            faulty.register("task")
            yield faulty

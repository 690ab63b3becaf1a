"""What one contract test works with: an orchestrator, a way to let time pass, short definitions."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from perago.domain.attempt import Attempt, AttemptSnapshot, AttemptStatus
from perago.domain.ids import WorkerId, WorkflowId
from perago.domain.outcome import Completed, Failed, JsonObject, JsonValue, Phase, TerminalFailure
from perago.domain.workflow import PolledTask, TaskState, WorkflowState
from perago.ports.orchestrator import Orchestrator

WORKER = WorkerId("worker-1")
FAILURE = Failed(reason="it did not work", phase=Phase.BODY)
TERMINAL_FAILURE = TerminalFailure(reason="it never will", phase=Phase.BODY)

_LOOKS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorBench:
    """An orchestrator under test.

    `second` is another client of the same state, as another process would have; it may be the
    same object. `advance` lets seconds pass. `lease_seconds` is the response time-out that the
    suite gives its tasks; on a real clock, keep it short.
    """

    orchestrator: Orchestrator
    second: Orchestrator
    advance: Callable[[float], None]
    lease_seconds: int = 10
    suffix: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def name(self, word: str) -> str:
        """A name that no other test uses."""
        return f"{word}-{self.suffix}"

    def register_task(self, word: str, **fields: JsonValue) -> str:
        """Register a TaskDef without retries unless `fields` say otherwise; gives its name."""
        definition: JsonObject = {
            "name": self.name(word),
            "ownerEmail": "owner@example.com",
            "retryCount": 0,
            "retryDelaySeconds": 0,
            "responseTimeoutSeconds": self.lease_seconds,
            "timeoutSeconds": 0,
            "timeoutPolicy": "RETRY",
        }
        definition.update(fields)
        self.orchestrator.register_task(definition)
        return self.name(word)

    def register_workflow(self, word: str, tasks: list[JsonValue], **fields: JsonValue) -> str:
        """Register a WorkflowDef; gives its name."""
        definition: JsonObject = {
            "name": self.name(word),
            "version": 1,
            "schemaVersion": 2,
            "ownerEmail": "owner@example.com",
            "timeoutSeconds": 0,
            "tasks": tasks,
        }
        definition.update(fields)
        self.orchestrator.register_workflow(definition)
        return self.name(word)

    def step(self, reference: str, word: str = "task", **fields: JsonValue) -> JsonObject:
        """A SIMPLE task of a WorkflowDef."""
        task: JsonObject = {
            "name": self.name(word),
            "taskReferenceName": reference,
            "type": "SIMPLE",
            "inputParameters": {},
        }
        task.update(fields)
        return task

    def start(self, *tasks: JsonObject, workflow_input: JsonObject | None = None) -> WorkflowId:
        """Register these tasks as a workflow and start it."""
        name = self.register_workflow("workflow", [*tasks])
        return self.orchestrator.start_workflow(name, workflow_input=workflow_input or {})

    def start_one(self, **task_fields: JsonValue) -> WorkflowId:
        """Start a workflow of one step, `only`, whose TaskDef has these fields."""
        self.register_task("task", **task_fields)
        return self.start(self.step("only"))

    def poll(self, *words: str, count: int = 1, wait_seconds: float = 0) -> list[PolledTask]:
        """Poll for tasks by their words."""
        return self.orchestrator.poll(
            [self.name(word) for word in words or ("task",)],
            worker_id=WORKER,
            count=count,
            wait_seconds=wait_seconds,
        )

    def take(self, word: str = "task") -> PolledTask:
        """Poll for one task that must come, now or within the lease."""
        taken = self.poll(word, wait_seconds=self.lease_seconds)
        assert len(taken) == 1, f"no attempt of {word!r} was handed out"
        return taken[0]

    def complete(self, attempt: Attempt, **result: JsonValue) -> None:
        """Report an attempt completed with that output."""
        self.orchestrator.report(attempt, Completed(output=dict(result)))

    def run(self, word: str = "task", **result: JsonValue) -> PolledTask:
        """Take a task and complete it."""
        task = self.take(word)
        self.complete(task.attempt, **result)
        return task

    def snapshot(self, attempt: Attempt) -> AttemptSnapshot:
        """What the orchestrator says of an attempt."""
        return self.orchestrator.snapshot(attempt.task_id)

    def status(self, attempt: Attempt) -> AttemptStatus:
        """The status of an attempt now."""
        return self.snapshot(attempt).status

    def workflow(self, workflow_id: WorkflowId) -> WorkflowState:
        """The instance, asked for through the second client."""
        return self.second.workflow(workflow_id)

    def attempts(self, workflow_id: WorkflowId, reference: str = "only") -> list[TaskState]:
        """All attempts of one step, oldest first."""
        return [
            task
            for task in self.workflow(workflow_id).tasks
            if task.attempt.reference_name == reference
        ]

    def lose_lease(self, attempt: Attempt) -> None:
        """Let the response time-out pass, and see that the attempt is out."""
        self.advance(self.lease_seconds)
        self.eventually(lambda: self.status(attempt) is AttemptStatus.TIMED_OUT)

    def eventually(self, holds: Callable[[], bool]) -> None:
        """See something become true within a few leases; at once, on virtual time."""
        for _ in range(_LOOKS):
            if holds():
                return
            self.advance(self.lease_seconds / 40)
        raise AssertionError("it did not come true in time")

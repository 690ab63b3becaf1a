"""The smallest workflow that a test can run."""

from perago.adapters.embedded.orchestrator.engine_orchestrator import EngineOrchestrator
from perago.domain.ids import WorkerId, WorkflowId
from perago.domain.outcome import JsonObject, JsonValue
from perago.domain.workflow import PolledTask

WORKER = WorkerId("worker")


def register(orchestrator: EngineOrchestrator, steps: int = 1, **task_fields: JsonValue) -> None:
    task: JsonObject = {"name": "task", "retryCount": 0, "retryDelaySeconds": 0}
    orchestrator.register_task(task | task_fields)
    tasks: list[JsonValue] = [
        {"name": "task", "taskReferenceName": f"step-{number}"} for number in range(steps)
    ]
    orchestrator.register_workflow({"name": "flow", "tasks": tasks})


def start(orchestrator: EngineOrchestrator) -> WorkflowId:
    return orchestrator.start_workflow("flow", workflow_input={})


def poll(orchestrator: EngineOrchestrator, count: int = 1) -> list[PolledTask]:
    return orchestrator.poll(["task"], worker_id=WORKER, count=count, wait_seconds=0)

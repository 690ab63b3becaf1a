"""What a real server carries and no task can use: it ends its own task, and no other."""

from __future__ import annotations

import pytest
import urllib3

from perago.domain.attempt import AttemptStatus, decide_staleness
from perago.domain.ids import WorkflowId
from perago.domain.json_limits import find_unreadable
from perago.domain.outcome import Completed, Failed, JsonObject, Phase
from perago.domain.workflow import PolledTask, WorkflowStatus
from tests.integration.conductor.faulty_conductor import FaultyConductor

pytestmark = pytest.mark.conductor
CARRIED = {
    "nested deeper than 200 levels": b'{"x":' + b"[" * 990 + b"]" * 990 + b"}",
    "externalInputPayloadStoragePath": b'{"x":"' + b"y" * 4_000_000 + b'"}',
}


def start(conductor: FaultyConductor, workflow_input: bytes) -> WorkflowId:
    """Start without this client, which would refuse the input."""
    name = conductor.name("poisoned").encode()
    answer = urllib3.request(
        "POST",
        f"{conductor.endpoint}/api/workflow",
        body=b'{"name":"' + name + b'","input":' + workflow_input + b"}",
        headers={"Content-Type": "application/json"},
    )
    assert answer.status == 200, answer.data
    return WorkflowId(answer.data.decode())


@pytest.fixture
def poisoned(conductor: FaultyConductor) -> FaultyConductor:
    """With a workflow that hands its input to one of two steps side by side."""
    name = conductor.name("task")

    def step(reference: str, taken: JsonObject) -> JsonObject:
        return {
            "name": name,
            "taskReferenceName": reference,
            "type": "SIMPLE",
            "inputParameters": taken,
        }

    conductor.direct.register_workflow(
        {
            "name": conductor.name("poisoned"),
            "version": 1,
            "schemaVersion": 2,
            "ownerEmail": "a@example.com",
            "timeoutSeconds": 0,
            "tasks": [
                {
                    "name": "fork",
                    "taskReferenceName": "fork",
                    "type": "FORK_JOIN",
                    "forkTasks": [
                        [step("bad", {"x": "${workflow.input.x}"})],
                        [step("good", {"y": 1})],
                    ],
                },
                {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": ["good"]},
            ],
        }
    )
    return conductor


@pytest.mark.parametrize(("named", "workflow_input"), CARRIED.items(), ids=["depth", "size"])
def test_it_costs_its_own_task_alone(
    poisoned: FaultyConductor, named: str, workflow_input: bytes
) -> None:
    workflow_id = start(poisoned, workflow_input)
    taken: dict[str, PolledTask] = {}
    while len(taken) < 2:
        for task in poisoned.poll(count=5, wait_seconds=5):
            taken[task.attempt.reference_name] = task
    bad, good = taken["bad"], taken["good"]
    assert named in (bad.refusal or "")
    assert (good.refusal, good.input) == (None, {"y": 1})

    assert decide_staleness(good.attempt, poisoned.client.snapshot(good.attempt.task_id)) is None
    assert poisoned.client.report(good.attempt, Completed(output={"ok": True})) is None
    state = poisoned.client.workflow(workflow_id)
    shown = {task.attempt.reference_name: task for task in state.tasks}
    assert named in (find_unreadable(shown["bad"].input) or "")
    assert shown["good"].output == {"ok": True}

    assert bad.refusal is not None
    assert (
        poisoned.client.report(bad.attempt, Failed(reason=bad.refusal, phase=Phase.VALIDATE))
        is None
    )
    (failed,) = (
        task
        for task in poisoned.client.workflow(workflow_id).tasks
        if task.attempt.task_id == bad.attempt.task_id
    )
    assert failed.status is AttemptStatus.FAILED
    assert named in (failed.reason or "")
    poisoned.direct.terminate(workflow_id, "the test is over")
    assert poisoned.client.workflow(workflow_id).status is not WorkflowStatus.RUNNING

"""One task id in several deliveries, as a real server makes them, and whose report counts then.

What is asserted of the server here is what `decide_report` and ADR 0009 rely on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import urllib3

from perago.adapters.conductor import ConductorConnection, ConductorOrchestrator
from perago.domain.attempt import AttemptStatus, decide_staleness
from perago.domain.ids import WorkerId, WorkflowId
from perago.domain.outcome import Completed, Failed, JsonObject, JsonValue, Outcome, Phase
from perago.domain.workflow import PolledTask, TaskState, WorkflowStatus
from perago.testing.orchestrator_contract import OrchestratorBench
from tests.conductor_server import SharedConductor

pytestmark = pytest.mark.conductor
FAILED = Failed(reason="it did not work", phase=Phase.BODY)
LATE = Completed(output={"who": "the late one"})
ANY_END = pytest.mark.parametrize("outcome", [LATE, FAILED], ids=["completed", "failed"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A client of the session's server, and calls that only an operator makes."""

    bench: OrchestratorBench
    api: str
    http: urllib3.PoolManager

    def post(self, path: str, body: JsonValue) -> JsonValue:
        answer = self.http.request("POST", f"{self.api}{path}", json=body)
        assert answer.status == 200, answer.data
        found: JsonValue = json.loads(answer.data) if answer.data.startswith(b"{") else None
        return found

    def rerun(self, workflow_id: WorkflowId, task: PolledTask) -> None:
        self.post(f"/workflow/{workflow_id}/rerun", {"reRunFromTaskId": task.attempt.task_id})

    def send_unfenced(self, task: PolledTask, status: str, output: JsonObject) -> None:
        """What a worker that does not look first sends."""
        attempt = task.attempt
        self.post(
            "/tasks",
            {
                "workflowInstanceId": attempt.workflow_id,
                "taskId": attempt.task_id,
                "workerId": attempt.worker_id,
                "status": status,
                "outputData": output,
            },
        )

    def take(self, worker: str = "worker-1") -> PolledTask:
        (task,) = self.bench.orchestrator.poll(
            [self.bench.name("task")], worker_id=WorkerId(worker), count=1, wait_seconds=10
        )
        return task

    def task(self, task: PolledTask) -> TaskState:
        """The task id of a delivery, as the server has it."""
        tasks = self.bench.workflow(task.attempt.workflow_id).tasks
        return next(one for one in tasks if one.attempt.task_id == task.attempt.task_id)

    def report(self, task: PolledTask, outcome: Outcome) -> str | None:
        return self.bench.orchestrator.report(task.attempt, outcome)


@pytest.fixture
def server(conductor_server: SharedConductor) -> Iterator[Server]:
    connection = ConductorConnection(url=conductor_server.endpoint)
    with ConductorOrchestrator(connection) as client, urllib3.PoolManager() as http:
        bench = OrchestratorBench(
            orchestrator=client, second=client, advance=lambda _: None, lease_seconds=600
        )
        bench.register_task("task", retryCount=2)
        yield Server(bench=bench, api=connection.api_url, http=http)


def complete_a_run_of_two_steps(server: Server) -> tuple[WorkflowId, PolledTask, PolledTask]:
    """A run whose first step needed two attempts; the second of these, and the second step."""
    bench = server.bench
    workflow_id = bench.start(bench.step("a"), bench.step("b"))
    server.report(server.take(), FAILED)
    a = server.take()
    server.report(a, Completed(output={"a": 1}))
    b = server.take()
    server.report(b, Completed(output={"b": 1}))
    assert bench.workflow(workflow_id).status is WorkflowStatus.COMPLETED
    return workflow_id, a, b


@ANY_END
def test_after_a_rerun_only_the_new_schedule_tells_the_same_worker_s_deliveries_apart(
    server: Server, outcome: Outcome
) -> None:
    workflow_id, old, _ = complete_a_run_of_two_steps(server)
    server.rerun(workflow_id, old)
    new = server.take()
    assert new.attempt.task_id == old.attempt.task_id
    assert new.attempt.poll_count == old.attempt.poll_count
    assert new.attempt.worker_id == old.attempt.worker_id
    assert new.attempt.retried_task_id == old.attempt.retried_task_id
    assert new.attempt.scheduled_time != old.attempt.scheduled_time

    told = server.report(old, outcome)
    assert told is not None
    assert "scheduled anew" in told
    assert decide_staleness(new.attempt, server.bench.snapshot(new.attempt)) is None
    assert server.report(new, Completed(output={"who": "the new one"})) is None
    assert server.task(new).output == {"who": "the new one"}


@ANY_END
def test_between_a_rerun_and_its_poll_nobody_reports(server: Server, outcome: Outcome) -> None:
    workflow_id, old, _ = complete_a_run_of_two_steps(server)
    server.rerun(workflow_id, old)
    assert server.task(old).attempt.worker_id == old.attempt.worker_id, "the server keeps it"
    assert server.report(old, outcome) is not None
    assert server.task(old).status is AttemptStatus.SCHEDULED


@ANY_END
def test_after_a_hand_back_only_the_new_holder_reports(server: Server, outcome: Outcome) -> None:
    server.bench.start(server.bench.step("only"))
    given = server.take("worker-1")
    server.bench.orchestrator.hand_back(given.attempt)
    held = server.take("worker-2")
    assert held.attempt.task_id == given.attempt.task_id
    assert held.attempt.scheduled_time == given.attempt.scheduled_time
    assert held.attempt.poll_count == 2

    assert server.report(given, outcome) is not None
    assert server.task(held).status is AttemptStatus.IN_PROGRESS
    assert server.report(held, Completed(output={"who": "the holder"})) is None


def test_a_report_without_a_look_ends_what_another_worker_holds(server: Server) -> None:
    """Why every report follows a read: the server itself fences nothing."""
    server.bench.start(server.bench.step("only"))
    given = server.take("worker-1")
    server.bench.orchestrator.hand_back(given.attempt)
    held = server.take("worker-2")
    server.send_unfenced(given, "FAILED", {})
    assert server.task(held).status is AttemptStatus.FAILED
    assert server.task(held).attempt.worker_id == "worker-1"
    assert server.report(held, LATE) is not None


def test_the_worker_is_told_apart_when_two_hold_one_task_id(server: Server) -> None:
    server.bench.start(server.bench.step("only"))
    first = server.take("worker-1")
    server.bench.orchestrator.hand_back(first.attempt)
    second = server.take("worker-1")
    assert second.attempt.worker_id == first.attempt.worker_id
    assert server.report(first, FAILED) is not None, "the same worker, an earlier poll"
    server.bench.orchestrator.hand_back(second.attempt)
    third = server.take("worker-2")
    assert server.report(second, FAILED) is not None
    assert server.report(third, LATE) is None


def test_an_attempt_that_a_rerun_brings_back_may_only_fail(server: Server) -> None:
    """A rerun from `b` queues the failed first attempt of the completed `a` again."""
    workflow_id, a, b = complete_a_run_of_two_steps(server)
    server.rerun(workflow_id, b)
    taken = {task.attempt.reference_name: task for task in (server.take(), server.take())}
    revenant, again = taken["a"], taken["b"]
    assert revenant.attempt.task_id != a.attempt.task_id
    assert server.bench.snapshot(revenant.attempt).is_retried
    assert decide_staleness(revenant.attempt, server.bench.snapshot(revenant.attempt)) is not None

    assert server.report(revenant, LATE) is not None
    assert server.report(again, Completed(output={"b": 2})) is None
    assert server.bench.workflow(workflow_id).status is WorkflowStatus.RUNNING, "it waits for it"
    assert server.report(revenant, FAILED) is None
    state = server.bench.workflow(workflow_id)
    assert state.status is WorkflowStatus.COMPLETED
    assert server.task(revenant).status is AttemptStatus.FAILED
    assert server.task(a).output == {"a": 1}, "what took its place is untouched"
    assert len(state.tasks) == 3, "and no retry follows"


def test_a_part_of_a_part_knows_its_root(server: Server) -> None:
    bench = server.bench
    inner = bench.register_workflow("inner", [bench.step("only")])
    middle = bench.register_workflow("middle", [_sub_workflow(inner)])
    outer = bench.register_workflow("outer", [_sub_workflow(middle)])
    root = bench.orchestrator.start_workflow(outer, workflow_input={})
    task = server.take()
    assert task.attempt.root_workflow_id is None, "a poll says nothing of it"
    assert task.attempt.workflow_id != root
    assert bench.orchestrator.find_root(task.attempt.workflow_id) == root
    assert bench.orchestrator.find_root(root) == root


def test_a_human_step_is_answered_once(server: Server) -> None:
    bench = server.bench
    human: JsonObject = {"name": "approve", "taskReferenceName": "approve", "type": "HUMAN"}
    workflow_id = bench.start(human)
    (task,) = bench.workflow(workflow_id).tasks
    assert task.attempt.worker_id is None
    report = bench.orchestrator.report
    assert report(task.attempt, Completed(output={"ok": True})) is None
    assert report(task.attempt, Completed(output={"ok": True})) is None, "it was heard"
    assert report(replace(task.attempt), FAILED) is not None
    assert bench.workflow(workflow_id).output == {"ok": True}


def _sub_workflow(name: str) -> JsonObject:
    return {
        "name": name,
        "taskReferenceName": name,
        "type": "SUB_WORKFLOW",
        "inputParameters": {},
        "subWorkflowParam": {"name": name, "version": 1},
    }

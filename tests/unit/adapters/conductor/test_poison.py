"""Whatever JSON a server carries ends at most its own task, with one of Perago's errors."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from perago.adapters.conductor import ConductorConnection, ConductorOrchestrator
from perago.domain.attempt import AttemptStatus
from perago.domain.errors import PeragoError
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.json_limits import explain_unusable_json
from perago.domain.outcome import JsonObject, JsonValue
from perago.domain.workflow import PolledTask
from tests.poison import Poison, PoisonKind, draw_poison
from tests.session_report import FIGURE
from tests.unit.adapters.conductor.byte_server import ByteServer, byte_server

SEED = 14
BREAKS_THE_ANSWER = {PoisonKind.TRUNCATED, PoisonKind.NO_JSON}
"""After these nothing tells where the next task begins."""
PAYLOADS = ("inputData", "outputData")


def a_task(task_id: str, **fields: JsonValue) -> JsonObject:
    known: JsonObject = {
        "workflowInstanceId": "w",
        "taskId": task_id,
        "taskDefName": "t",
        "taskType": "t",
        "referenceTaskName": f"ref-{task_id}",
        "status": "IN_PROGRESS",
        "retryCount": 0,
        "seq": 1,
        "iteration": 0,
        "pollCount": 1,
        "workerId": "worker-1",
        "responseTimeoutSeconds": 60,
        "scheduledTime": 1795122731259,
        "startTime": 1795122731266,
        "updateTime": 1795122731267,
        "endTime": 0,
        "retried": False,
        "inputData": {"params": {"year": 2013}},
        "outputData": {},
        "workflowTask": {"type": "SIMPLE"},
        "taskDefinition": {"timeoutSeconds": 60, "timeoutPolicy": "RETRY"},
    }
    return known | fields


def an_instance(tasks: bytes = b"[]", **fields: JsonValue) -> bytes:
    known: JsonObject = {
        "workflowId": "w",
        "workflowName": "name",
        "workflowVersion": 1,
        "status": "RUNNING",
        "startTime": 1795122731266,
        "input": {},
        "output": {},
    }
    return encode(known | fields)[:-1] + b',"tasks":' + tasks + b"}"


def encode(value: JsonValue) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@dataclass
class Poisoner:
    """Puts poison into JSON, and counts it."""

    chance: random.Random = field(default_factory=lambda: random.Random(SEED))
    counts: Counter[str] = field(default_factory=Counter)

    def draw(self, edge: str, kind: PoisonKind | None = None) -> Poison:
        poison = draw_poison(self.chance, kind)
        self.counts[poison.kind] += 1
        self.counts[f"at {edge}"] += 1
        return poison

    def spoil(self, found: JsonObject, poison: Poison, names: list[str] | None = None) -> bytes:
        """The object with the poison as one of its fields, inside one, or in its place."""
        where = self.chance.randrange(12)
        if names is None and where == 0:
            return poison.data
        name = self.chance.choice(names or list(found))
        rest = {key: value for key, value in found.items() if key != name}
        data = poison.data if where % 2 else b'{"params":{"x":' + poison.data + b"}}"
        field_ = encode(name) + b":" + data
        others = encode(rest)[1:-1]
        return b"{" + (field_ + b"," + others if where % 3 else others + b"," + field_) + b"}"


@pytest.fixture(scope="module")
def server() -> Iterator[ByteServer]:
    with byte_server() as running:
        yield running


@pytest.fixture(scope="module")
def client(server: ByteServer) -> Iterator[ConductorOrchestrator]:
    with ConductorOrchestrator(ConductorConnection(url=server.url, retry_seconds=0)) as opened:
        yield opened


def poll(client: ConductorOrchestrator) -> list[PolledTask]:
    return client.poll(["t"], worker_id=WorkerId("worker-1"), count=10, wait_seconds=0)


@pytest.mark.parametrize("tasks", [2_000, pytest.param(10_000, marks=pytest.mark.torture)])
def test_poisoned_tasks_cost_nobody_else(
    server: ByteServer,
    client: ConductorOrchestrator,
    tasks: int,
    record_property: Callable[[str, object], None],
) -> None:
    poisoner = Poisoner()
    # Read once by the client, and kept: of which instance a task is.
    server.answers[b"/api/tasks/good"] = encode(a_task("good"))
    edges = [poll_poison, look_at_poison, read_poison, define_poison, search_poison]
    turns = itertools.cycle(edges)
    done = 0
    while done < tasks:
        done += next(turns)(poisoner, server, client)
    described = ", ".join(f"{what} {count:,}" for what, count in sorted(poisoner.counts.items()))
    record_property(FIGURE, f"{done:,} poisoned tasks of a Conductor server: {described}")
    assert all(poisoner.counts[kind] > done // 100 for kind in PoisonKind)


def poll_poison(poisoner: Poisoner, server: ByteServer, client: ConductorOrchestrator) -> int:
    """Four poisoned tasks between two healthy ones."""
    poisons = [poisoner.draw("poll") for _ in range(4)]
    tasks = [poisoner.spoil(a_task(f"bad-{n}"), poison) for n, poison in enumerate(poisons)]
    healthy = [encode(a_task("first")), encode(a_task("last"))]
    server.answer = b"[" + b",".join([healthy[0], *tasks, healthy[1]]) + b"]"
    found = {task.attempt.task_id: task for task in poll(client)}
    expected = {TaskId("first")}
    if not any(poison.kind in BREAKS_THE_ANSWER for poison in poisons):
        expected.add(TaskId("last"))
    assert found.keys() >= expected
    for task_id in expected:
        assert found[task_id].input == {"params": {"year": 2013}}
        assert found[task_id].refusal is None
    for task in found.values():
        assert explain_unusable_json(task.input) is None
        assert task.refusal is None or not task.input
        json.dumps(task.refusal).encode()
        str(task.attempt).encode()
    return len(poisons)


def look_at_poison(poisoner: Poisoner, server: ByteServer, client: ConductorOrchestrator) -> int:
    """The fence of a healthy task beside one with a poisoned input or output."""
    poison = poisoner.draw("snapshot")
    bad = poisoner.spoil(a_task("bad"), poison, list(PAYLOADS))
    server.answer = an_instance(b"[" + bad + b"," + encode(a_task("good")) + b"]")
    if poison.kind in BREAKS_THE_ANSWER:
        with pytest.raises(PeragoError):
            client.snapshot(TaskId("good"))
    else:
        assert client.snapshot(TaskId("good")).status is AttemptStatus.IN_PROGRESS
    return 1


def read_poison(poisoner: Poisoner, server: ByteServer, client: ConductorOrchestrator) -> int:
    poison = poisoner.draw("workflow")
    if poisoner.chance.randrange(2):
        bad = poisoner.spoil(a_task("bad"), poison)
        server.answer = an_instance(b"[" + bad + b"," + encode(a_task("good")) + b"]")
    else:
        instance: JsonObject = json.loads(an_instance())
        server.answer = poisoner.spoil(instance, poison)
    with suppress(PeragoError):
        state = client.workflow(WorkflowId("w"))
        payloads = [state.input, state.output]
        payloads += [one for task in state.tasks for one in (task.input, task.output)]
        assert all(explain_unusable_json(payload) is None for payload in payloads)
        str([state.name, state.reason, [task.attempt for task in state.tasks]]).encode()
    return 1


def define_poison(poisoner: Poisoner, server: ByteServer, client: ConductorOrchestrator) -> int:
    poison = poisoner.draw("definition")
    definition: JsonObject = {"name": "t", "retryCount": 1, "inputTemplate": {}, "tasks": []}
    server.answer = poisoner.spoil(definition, poison)
    for find in (client.find_task_definition, client.find_workflow_definition):
        with suppress(PeragoError):
            assert explain_unusable_json(find("t")) is None
    return 1


def search_poison(poisoner: Poisoner, server: ByteServer, client: ConductorOrchestrator) -> int:
    poison = poisoner.draw("search")
    hit: JsonObject = {"workflowId": "w", "startTime": "2026-11-19T21:14:08Z", "input": "{x=1}"}
    server.answer = b'{"totalHits":1,"results":[' + poisoner.spoil(hit, poison) + b"]}"
    with suppress(PeragoError):
        for workflow_id in client.workflow_ids(limit=1):
            workflow_id.encode()
    line: JsonObject = {"log": "text", "taskId": "t", "createdTime": 1795122731266}
    server.answer = b"[" + poisoner.spoil(line, poison) + b"]"
    with suppress(PeragoError):
        for told in client.read_log(TaskId("t")):
            told.text.encode()
    return 1


def test_a_search_that_always_answers_its_first_page_ends(
    server: ByteServer, client: ConductorOrchestrator
) -> None:
    hits: list[JsonValue] = [{"workflowId": f"w-{number}"} for number in range(100)]
    server.answer = encode({"results": hits})
    assert len(client.workflow_ids(limit=10**9)) == 100

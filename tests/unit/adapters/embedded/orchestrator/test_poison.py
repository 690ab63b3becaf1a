"""Definitions, inputs and outputs that nobody can use end at the edge, or as failed attempts.

In none of these tests is a poll, a look or a listing of others disturbed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perago.adapters.embedded.orchestrator import EmbeddedOrchestrator
from perago.domain.attempt import AttemptStatus
from perago.domain.errors import InvalidDefinitionError, OrchestratorError, PeragoError
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.json_limits import find_unreadable, read_json
from perago.domain.outcome import Completed, Failed, JsonObject, JsonValue, Phase
from perago.domain.workflow import WorkflowStatus
from perago.testing.clock import FakeClock
from tests.poison import PoisonKind, draw_poison

MANY = 300
WORKER = WorkerId("worker-1")
HALF = "\ud800"


def nest(levels: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(levels):
        value = [value]
    return value


UNUSABLE = {
    "depth": nest(900),
    "very deep": nest(50_000),
    "digits": 10**5000,
    "half a character": HALF,
    "half a name": {HALF: 1},
}


@pytest.fixture
def orchestrator(tmp_path: Path) -> Iterator[EmbeddedOrchestrator]:
    with EmbeddedOrchestrator(tmp_path / "home", FakeClock()) as opened:
        opened.register_task({"name": "task", "retryCount": 0})
        register(opened, "healthy", {})
        yield opened


def register(
    orchestrator: EmbeddedOrchestrator, name: str, inputs: JsonObject, **fields: JsonValue
) -> None:
    step: JsonObject = {"name": "task", "taskReferenceName": "only", "inputParameters": inputs}
    definition: JsonObject = {"name": name, "version": 1, "tasks": [step]}
    orchestrator.register_workflow(definition | fields)


def assert_a_worker_goes_on(orchestrator: EmbeddedOrchestrator) -> None:
    """A healthy run goes from start to end."""
    started = orchestrator.start_workflow("healthy", workflow_input={})
    (task,) = orchestrator.poll(["task"], worker_id=WORKER, count=5, wait_seconds=0)
    assert task.attempt.workflow_id == started
    assert orchestrator.report(task.attempt, Completed(output={})) is None
    assert orchestrator.workflow(started).status is WorkflowStatus.COMPLETED
    assert orchestrator.workflows(limit=1)


@pytest.mark.parametrize("value", UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_value_is_refused_where_it_comes_in(
    orchestrator: EmbeddedOrchestrator, value: JsonValue
) -> None:
    running = orchestrator.start_workflow("healthy", workflow_input={})
    (task,) = orchestrator.poll(["task"], worker_id=WORKER, count=1, wait_seconds=0)
    edges: list[Callable[[], object]] = [
        lambda: orchestrator.start_workflow("healthy", workflow_input={"x": value}),
        lambda: register(orchestrator, "w", {"x": value}),
        lambda: register(orchestrator, "w", {}, outputParameters={"x": value}),
        lambda: orchestrator.register_task({"name": "t", "inputTemplate": {"x": value}}),
        lambda: orchestrator.register_task({"name": value}),
        lambda: orchestrator.report(task.attempt, Completed(output={"x": value})),
    ]
    for come_in in edges:
        with pytest.raises(OrchestratorError) as refused:
            come_in()
        assert len(str(refused.value).encode()) < 1_000
    assert orchestrator.report(task.attempt, Completed(output={})) is None
    assert orchestrator.workflow(running).status is WorkflowStatus.COMPLETED
    assert_a_worker_goes_on(orchestrator)


def test_texts_that_are_no_unicode_are_kept_with_a_sign(
    orchestrator: EmbeddedOrchestrator,
) -> None:
    running = orchestrator.start_workflow("healthy", workflow_input={})
    (task,) = orchestrator.poll(["task"], worker_id=WORKER, count=1, wait_seconds=0)
    orchestrator.append_log(task.attempt.task_id, f"a{HALF}b")
    failed = Failed(reason=f"no file {HALF}", phase=Phase.BODY)
    assert orchestrator.report(task.attempt, failed) is None
    (line,) = orchestrator.read_log(task.attempt.task_id)
    (shown,) = orchestrator.workflow(running).tasks
    assert (line.text, shown.reason) == ("a\\ud800b", "no file \\ud800")
    other = orchestrator.start_workflow("healthy", workflow_input={})
    orchestrator.terminate(other, HALF)
    assert orchestrator.workflow(other).reason == "\\ud800"


def test_names_that_nothing_can_have_are_one_clear_error(
    orchestrator: EmbeddedOrchestrator,
) -> None:
    asks: list[Callable[[], object]] = [
        lambda: orchestrator.snapshot(TaskId(HALF)),
        lambda: orchestrator.workflow(WorkflowId(HALF)),
        lambda: orchestrator.find_task_definition(HALF),
        lambda: orchestrator.find_workflow_definition("w", 10**30),
        lambda: orchestrator.workflow_ids(limit=10**30),
    ]
    for ask in asks:
        with pytest.raises(PeragoError):
            ask()


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (nest(60), "nested deeper than 200 levels"),
        (["<${workflow.input.text}>"] * 40, "over 3,145,728 characters"),
        (["${workflow.input.text}"] * 40, "over 3,145,728 characters"),
    ],
    ids=["depth", "texts", "values"],
)
def test_an_input_that_expressions_make_unusable_fails_its_attempt(
    orchestrator: EmbeddedOrchestrator, template: JsonValue, reason: str
) -> None:
    around = json.dumps(template).replace("1", '"${workflow.input.deep}"')
    register(orchestrator, "grown", {"x": json.loads(around)})
    run = orchestrator.start_workflow(
        "grown", workflow_input={"deep": nest(190), "text": "x" * 100_000}
    )
    assert orchestrator.poll(["task"], worker_id=WORKER, count=5, wait_seconds=0) == []
    state = orchestrator.workflow(run)
    (task,) = state.tasks
    assert task.status is AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    assert reason in (task.reason or "")
    assert state.status is WorkflowStatus.FAILED
    assert_a_worker_goes_on(orchestrator)


def test_an_instance_ends_although_its_output_cannot_be_kept(
    orchestrator: EmbeddedOrchestrator,
) -> None:
    outputs: JsonObject = {"x": ["${workflow.input.text}"] * 40}
    register(orchestrator, "loud", {}, outputParameters=outputs)
    run = orchestrator.start_workflow("loud", workflow_input={"text": "x" * 100_000})
    (task,) = orchestrator.poll(["task"], worker_id=WORKER, count=1, wait_seconds=0)
    orchestrator.report(task.attempt, Completed(output={}))
    state = orchestrator.workflow(run)
    assert state.status is WorkflowStatus.COMPLETED
    assert "characters" in (find_unreadable(state.output) or "")


def test_expressions_inside_each_other_are_refused_by_name(
    orchestrator: EmbeddedOrchestrator,
) -> None:
    with pytest.raises(InvalidDefinitionError, match=r"task 'only': over 20 expressions"):
        register(orchestrator, "w", {"x": "${a" * 3000 + "}" * 3000})


def test_a_wait_for_a_text_of_any_length_fails_by_itself(
    orchestrator: EmbeddedOrchestrator,
) -> None:
    wait: JsonObject = {
        "name": "pause",
        "taskReferenceName": "pause",
        "type": "WAIT",
        "inputParameters": {"duration": "${workflow.input.pause}"},
    }
    orchestrator.register_workflow({"name": "w", "version": 1, "tasks": [wait]})
    run = orchestrator.start_workflow("w", workflow_input={"pause": " " * 50_000 + "x"})
    assert orchestrator.workflow(run).status is WorkflowStatus.FAILED
    assert_a_worker_goes_on(orchestrator)


def test_any_poison_is_refused_or_carried(orchestrator: EmbeddedOrchestrator) -> None:
    chance = random.Random(14)
    register(orchestrator, "carrier", {"x": "${workflow.input.x}", "t": "<${workflow.input.x}>"})
    carried = 0
    for number in range(MANY):
        kinds = list(PoisonKind)
        poison = draw_poison(chance, kinds[number % len(kinds)])
        try:
            value = read_json(poison.data)
        except ValueError:
            continue
        definition: JsonObject = {
            "name": "t",
            "inputTemplate": {"x": value},
            "timeoutPolicy": value,
        }
        try:
            orchestrator.register_task(definition)
        except OrchestratorError as refused:
            str(refused).encode()
        try:
            orchestrator.start_workflow("carrier", workflow_input={"x": value})
        except OrchestratorError as refused:
            str(refused).encode()
            continue
        for task in orchestrator.poll(["task"], worker_id=WORKER, count=1, wait_seconds=0):
            carried += 1
            assert orchestrator.report(task.attempt, Completed(output={"x": value})) is None
    assert carried > MANY / 5
    assert_a_worker_goes_on(orchestrator)

"""Going on with a run that a dead worker left: what is refused, and what is reported for it."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from perago import Pipeline, RetryPolicy, TaskControls, parallel, task
from perago.app.follow import find_dead_attempts, find_run
from perago.app.prepare_run import refuse_missing_tasks
from perago.authoring import AnyTask, build_task_definition
from perago.domain.errors import NotFoundInOrchestratorError, OrchestratorError, UsageError
from perago.domain.ids import WorkerId, WorkflowId
from perago.domain.outcome import Completed
from perago.testing import FakeClock, MemoryOrchestrator


class Params(BaseModel):
    """Nothing."""


class Result(BaseModel):
    """Nothing."""


def named(name: str) -> AnyTask:
    @task(
        name,
        owner_email="data@example.com",
        controls=TaskControls(retry=RetryPolicy(count=1, delay_seconds=0)),
    )
    def body(params: Params) -> Result:
        return Result()

    return body


@pytest.fixture
def orchestrator() -> MemoryOrchestrator:
    return MemoryOrchestrator(FakeClock())


def start(orchestrator: MemoryOrchestrator, step: AnyTask) -> WorkflowId:
    pipeline = Pipeline("nightly", 1, [step])
    orchestrator.register_task(build_task_definition(step))
    orchestrator.register_workflow(pipeline.workflow_definition())
    return orchestrator.start_workflow("nightly", workflow_input={"params": {}})


def test_a_run_that_waits_for_a_task_that_is_gone_is_refused(
    orchestrator: MemoryOrchestrator,
) -> None:
    run = orchestrator.workflow(start(orchestrator, named("old_name")))

    refuse_missing_tasks(run, Pipeline("nightly", 1, [named("old_name")]))
    with pytest.raises(UsageError, match="waits for task 'old_name'") as caught:
        refuse_missing_tasks(run, Pipeline("nightly", 1, [named("new_name")]))

    assert "perago cancel" in (caught.value.hint or "")


def test_a_task_of_a_branch_belongs_to_its_pipeline(orchestrator: MemoryOrchestrator) -> None:
    left, right = named("left"), named("right")
    pipeline = Pipeline("nightly", 1, [parallel([left], [right])])
    for step in (left, right):
        orchestrator.register_task(build_task_definition(step))
    orchestrator.register_workflow(pipeline.workflow_definition())
    run = orchestrator.start_workflow("nightly", workflow_input={"params": {}})

    refuse_missing_tasks(orchestrator.workflow(run), pipeline)


def test_what_ended_is_not_held_though_its_worker_is_dead(orchestrator: MemoryOrchestrator) -> None:
    step = named("step")
    run = start(orchestrator, step)
    (polled,) = orchestrator.poll(["step"], worker_id=WorkerId("dead"), count=1, wait_seconds=0)
    orchestrator.report(polled.attempt, Completed(output={"result": {}}))

    assert find_dead_attempts(orchestrator.workflow(run), is_dead) == []


def test_what_nobody_polled_yet_is_nobodys(orchestrator: MemoryOrchestrator) -> None:
    run = start(orchestrator, named("step"))

    assert find_dead_attempts(orchestrator.workflow(run), lambda _: True) == []


def test_what_a_dead_worker_holds_is_found_and_what_a_living_one_holds_is_not(
    orchestrator: MemoryOrchestrator,
) -> None:
    step = named("step")
    dead, living = start(orchestrator, step), start(orchestrator, step)
    for worker in ("dead", "living"):
        orchestrator.poll(["step"], worker_id=WorkerId(worker), count=1, wait_seconds=0)

    found = [
        [attempt.workflow_id for attempt in find_dead_attempts(orchestrator.workflow(run), is_dead)]
        for run in (dead, living)
    ]

    assert found == [[dead], []]


def is_dead(worker: WorkerId) -> bool:
    return worker == "dead"


def test_a_run_is_found_by_the_beginning_of_its_id(orchestrator: MemoryOrchestrator) -> None:
    step = named("step")
    first = start(orchestrator, step)

    assert find_run(orchestrator, first[:8]).id == first
    assert find_run(orchestrator, "last").id == first
    with pytest.raises(NotFoundInOrchestratorError, match="there is no run 'zzz'"):
        find_run(orchestrator, "zzz")
    newest = start(orchestrator, step)
    assert find_run(orchestrator, "last").id == newest
    with pytest.raises(OrchestratorError, match="beginning of 2 runs"):
        find_run(orchestrator, "")

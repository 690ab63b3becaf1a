from dataclasses import replace

import pytest
from pydantic import BaseModel

from perago import (
    Pipeline,
    RetryPolicy,
    TaskControls,
    TimeoutPolicy,
    task,
)
from perago.app.definition_diff import find_differences
from perago.app.register import (
    Change,
    Registered,
    RegistrationPlan,
    plan_registration,
    read_registered,
    register,
)
from perago.authoring import (
    AnyTask,
    Declarations,
    DefinitionSet,
    Limits,
    build_definition_set,
    build_pipeline_definitions,
)
from perago.domain.errors import PipelineError, UsageError
from perago.domain.outcome import JsonObject
from perago.testing import FakeClock, MemoryOrchestrator


class Params(BaseModel):
    """Nothing much."""

    text: str = "x"


class Result(BaseModel):
    """Less."""

    size: int


def make_task(name: str, controls: TaskControls | None = None) -> AnyTask:
    @task(name, owner_email="a@example.com", controls=controls)
    def body(params: Params) -> Result:
        return Result(size=1)

    return body


def flow(version: int, *tasks: AnyTask) -> Pipeline:
    return Pipeline("flow", version, tasks, params=Params)


def declare(*pipelines: Pipeline) -> DefinitionSet:
    return build_definition_set(Declarations(pipelines=pipelines))


@pytest.fixture
def orchestrator() -> MemoryOrchestrator:
    return MemoryOrchestrator(FakeClock())


def plan(orchestrator: MemoryOrchestrator, declared: DefinitionSet) -> RegistrationPlan:
    return plan_registration(declared, read_registered(orchestrator, declared))


def changes(plan: RegistrationPlan) -> dict[str, Change]:
    return {one.title: one.change for one in plan.definitions}


def test_what_is_not_there_is_new_and_tasks_come_first(orchestrator: MemoryOrchestrator) -> None:
    planned = plan(orchestrator, declare(flow(1, make_task("a"), make_task("b"))))

    assert list(changes(planned).items()) == [
        ("task a", Change.NEW),
        ("task b", Change.NEW),
        ("workflow flow v1", Change.NEW),
    ]


def test_a_second_registration_writes_nothing(orchestrator: MemoryOrchestrator) -> None:
    declared = declare(flow(1, make_task("a")))
    register(orchestrator, plan(orchestrator, declared))

    again = plan(orchestrator, declared)

    assert again.to_write == []
    assert set(changes(again).values()) == {Change.UNCHANGED}


def test_a_changed_task_shows_each_field(orchestrator: MemoryOrchestrator) -> None:
    register(orchestrator, plan(orchestrator, declare(flow(1, make_task("a")))))
    slower = TaskControls(retry=RetryPolicy(count=7), timeout=TimeoutPolicy(total_seconds=600))

    planned = plan(orchestrator, declare(flow(1, make_task("a", slower))))

    [changed] = planned.to_write
    assert changed.title == "task a"
    assert [(d.path, d.registered, d.declared) for d in changed.differences] == [
        ("retryCount", 3, 7),
        ("timeoutSeconds", 0, 600),
    ]
    register(orchestrator, planned)
    found = orchestrator.find_task_definition("a")
    assert found is not None
    assert found["retryCount"] == 7


def test_a_limit_that_is_no_longer_declared_is_a_change(orchestrator: MemoryOrchestrator) -> None:
    limited = TaskControls(limits=Limits(concurrent=2))
    register(orchestrator, plan(orchestrator, declare(flow(1, make_task("a", limited)))))

    [changed] = plan(orchestrator, declare(flow(1, make_task("a")))).to_write

    assert [(d.path, d.registered, d.declared) for d in changed.differences] == [
        ("concurrentExecLimit", 2, None)
    ]


def test_a_registered_version_may_change(orchestrator: MemoryOrchestrator) -> None:
    register(orchestrator, plan(orchestrator, declare(flow(1, make_task("a")))))

    planned = plan(orchestrator, declare(flow(1, make_task("a"), make_task("b"))))

    assert changes(planned) == {
        "task a": Change.UNCHANGED,
        "task b": Change.NEW,
        "workflow flow v1": Change.CHANGED,
    }
    assert planned.refused == []


def test_older_code_is_refused_whole(orchestrator: MemoryOrchestrator) -> None:
    register(orchestrator, plan(orchestrator, declare(flow(2, make_task("a")))))
    older = plan(
        orchestrator, declare(flow(1, make_task("a", TaskControls(retry=RetryPolicy(count=9)))))
    )

    with pytest.raises(UsageError, match="workflow flow v1: the server has version 2") as caught:
        register(orchestrator, older)

    assert caught.value.hint is not None
    assert "raise the version of 'flow' above 2" in caught.value.hint
    assert plan(orchestrator, declare(flow(2, make_task("a")))).to_write == []


def test_code_with_an_old_version_beside_the_newest_is_not_older(
    orchestrator: MemoryOrchestrator,
) -> None:
    one = make_task("a")
    declared = declare(flow(1, one), flow(2, one))
    register(orchestrator, plan(orchestrator, declared))

    again = plan(orchestrator, declared)

    assert (again.to_write, again.refused) == ([], [])


def test_two_pipelines_of_one_name_and_version_are_refused() -> None:
    one = make_task("a")
    with pytest.raises(PipelineError, match="two pipelines are 'flow' version 1"):
        declare(flow(1, one), flow(1, one, make_task("b")))


def test_a_run_needs_what_its_pipeline_names() -> None:
    pipeline = flow(1, make_task("a"), make_task("b"))
    alone = build_pipeline_definitions(pipeline)

    assert alone.task_definitions == declare(pipeline).task_definitions
    assert [one["name"] for one in alone.task_definitions] == ["a", "b"]


# -- what Conductor 3.32.1 was seen to add to what it was given

_TASK_DEFAULTS: JsonObject = {
    "createTime": 1794948254294,
    "updateTime": 0,
    "createdBy": "",
    "runtimeMetadata": [],
    "inputTemplate": {},
    "rateLimitPerFrequency": 0,
    "rateLimitFrequencyInSeconds": 1,
    "maxRetryDelaySeconds": 0,
    "backoffJitterMs": 0,
    "totalTimeoutSeconds": 0,
    "taskStatusListenerEnabled": True,
    "enforceSchema": False,
}
_STEP_DEFAULTS: JsonObject = {
    "decisionCases": {},
    "defaultCase": [],
    "forkTasks": [],
    "startDelay": 0,
    "joinOn": [],
    "optional": False,
    "asyncComplete": False,
    "loopOver": [],
    "onStateChange": {},
    "permissive": False,
    "metadata": {},
}


def test_what_conductor_adds_is_no_difference() -> None:
    declared = declare(flow(1, make_task("a")))
    [task_definition], [workflow] = declared.task_definitions, declared.workflow_definitions
    schema = task_definition["inputSchema"]
    steps = workflow["tasks"]
    assert isinstance(schema, dict)
    assert isinstance(steps, list)
    server = Registered(
        tasks={
            "a": {
                **_TASK_DEFAULTS,
                **task_definition,
                "inputSchema": {**schema, "createTime": 0, "updateTime": 0},
            }
        },
        workflows={
            ("flow", 1): {
                **workflow,
                "tasks": [{**_STEP_DEFAULTS, **s} for s in steps if isinstance(s, dict)],
                "updateTime": 1794948258311,
                "enforceSchema": True,
                "variables": {},
            }
        },
        newest={"flow": 1},
    )

    assert plan_registration(declared, server).to_write == []


def test_a_key_too_many_where_keys_are_peoples_own_is_a_difference() -> None:
    declared: JsonObject = {"tasks": [{"name": "a", "inputParameters": {"params": {"x": 1}}}]}
    registered: JsonObject = {
        "tasks": [{"name": "a", "metadata": {}, "inputParameters": {"params": {"x": 1, "y": 2}}}]
    }

    [found] = find_differences(registered, declared)

    assert found.path == "tasks[0].inputParameters.params.y"
    assert (found.registered, found.declared) == (2, None)


@pytest.mark.parametrize(
    ("registered", "declared"), [(True, 1), (0, False), ([1], [1, 2]), ({"a": 1}, [1]), (None, 0)]
)
def test_values_differ_by_kind_too(registered: object, declared: object) -> None:
    there, here = {"x": registered}, {"x": declared}

    [found] = find_differences(there, here)  # type: ignore[arg-type]

    assert found.path == "x"


def test_a_refused_plan_still_tells_what_would_change(orchestrator: MemoryOrchestrator) -> None:
    declared = declare(flow(3, make_task("a")))
    server = replace(read_registered(orchestrator, declared), newest={"flow": 4})

    planned = plan_registration(declared, server)

    assert [one.title for one in planned.refused] == ["workflow flow v3"]
    assert len(planned.to_write) == 2

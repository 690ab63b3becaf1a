import re
from collections.abc import Mapping

import pytest

from perago.adapters.embedded.orchestrator.engine.definitions import (
    ForkStep,
    JoinStep,
    RetryLogic,
    SimpleStep,
    TaskDefinition,
    TimeoutPolicy,
)
from perago.adapters.embedded.orchestrator.engine.parsing import (
    bind_task_definitions,
    parse_task_definition,
    parse_workflow_definition,
)
from perago.domain.errors import InvalidDefinitionError
from perago.domain.outcome import JsonObject, JsonValue

NOTHING: dict[str, JsonObject] = {}


def simple(reference: str, **fields: JsonValue) -> JsonObject:
    return {"name": "task", "taskReferenceName": reference, "type": "SIMPLE"} | fields


def workflow(*tasks: JsonValue, **fields: JsonValue) -> JsonObject:
    definition: JsonObject = {"name": "flow", "version": 3, "tasks": list(tasks)}
    return definition | fields


def fork(*branches: JsonValue) -> JsonObject:
    return {
        "name": "f",
        "taskReferenceName": "f",
        "type": "FORK_JOIN",
        "forkTasks": list(branches),
    }


def join(*names: JsonValue, reference: str = "j") -> JsonObject:
    return {"name": "j", "taskReferenceName": reference, "type": "JOIN", "joinOn": list(names)}


class TestTaskDefinition:
    def test_defaults_are_conductors(self) -> None:
        assert parse_task_definition({"name": "t"}) == TaskDefinition(
            name="t",
            retry_count=3,
            retry_logic=RetryLogic.FIXED,
            retry_delay_seconds=60,
            backoff_scale_factor=1,
            response_timeout_seconds=3600,
            timeout_seconds=0,
            timeout_policy=TimeoutPolicy.TIME_OUT_WF,
        )

    def test_every_field_is_read(self) -> None:
        source: JsonObject = {
            "name": "t",
            "ownerEmail": "a@b.c",
            "description": "read past",
            "retryCount": 1,
            "retryLogic": "LINEAR_BACKOFF",
            "retryDelaySeconds": 2,
            "backoffScaleFactor": 3,
            "maxRetryDelaySeconds": 4,
            "responseTimeoutSeconds": 5,
            "timeoutSeconds": 6,
            "timeoutPolicy": "ALERT_ONLY",
            "pollTimeoutSeconds": 7,
            "concurrentExecLimit": 8,
            "rateLimitPerFrequency": 9,
            "rateLimitFrequencyInSeconds": 10,
            "inputTemplate": {"a": 1},
            "backoffJitterMs": 100,
        }
        assert parse_task_definition(source) == TaskDefinition(
            name="t",
            retry_count=1,
            retry_logic=RetryLogic.LINEAR_BACKOFF,
            retry_delay_seconds=2,
            backoff_scale_factor=3,
            max_retry_delay_seconds=4,
            response_timeout_seconds=5,
            timeout_seconds=6,
            timeout_policy=TimeoutPolicy.ALERT_ONLY,
            poll_timeout_seconds=7,
            concurrent_limit=8,
            rate_limit=9,
            rate_window_seconds=10,
            input_template={"a": 1},
        )

    def test_null_is_missing(self) -> None:
        source: JsonObject = {"name": "t", "retryCount": None, "inputTemplate": None}
        assert parse_task_definition(source) == TaskDefinition(name="t")

    @pytest.mark.parametrize(
        ("fields", "problem"),
        [
            ({"name": ""}, "name is ''"),
            ({"name": None}, "name is missing"),
            ({"retryCount": -1}, "retryCount is -1"),
            ({"retryCount": "3"}, "retryCount is '3'"),
            ({"retryCount": True}, "retryCount is True"),
            ({"retryCount": 1.5}, "retryCount is 1.5"),
            ({"retryDelaySeconds": 2**31}, "retryDelaySeconds is 2147483648"),
            ({"retryLogic": "SOMETIMES"}, "retryLogic is 'SOMETIMES'"),
            ({"responseTimeoutSeconds": 0}, "responseTimeoutSeconds is 0"),
            ({"timeoutPolicy": 7}, "timeoutPolicy is 7"),
            ({"inputTemplate": []}, "inputTemplate is []"),
            ({"totalTimeoutSeconds": 60}, "totalTimeoutSeconds is not supported"),
            (
                {"responseTimeoutSeconds": 20, "timeoutSeconds": 10},
                "responseTimeoutSeconds 20 exceeds timeoutSeconds 10",
            ),
        ],
    )
    def test_what_is_wrong_is_named(self, fields: Mapping[str, JsonValue], problem: str) -> None:
        with pytest.raises(InvalidDefinitionError, match=re.escape(problem)) as refused:
            parse_task_definition({"name": "t", **fields})
        assert "task definition" in refused.value.message
        assert refused.value.hint


class TestWorkflowDefinition:
    def test_steps_and_branches_are_found_by_reference(self) -> None:
        source = workflow(
            simple("a", optional=True, retryCount=0, startDelay=2),
            fork([simple("b"), simple("c")], [simple("d")]),
            join("c", "d"),
        )
        definition = parse_workflow_definition(source)
        assert (definition.name, definition.version) == ("flow", 3)
        assert list(definition.by_reference) == ["a", "f", "b", "c", "d", "j"]
        assert definition.source == source
        first, forked, joined = definition.steps
        assert isinstance(first, SimpleStep)
        assert (first.optional, first.max_retries, first.start_delay_seconds) == (True, 0, 2)
        assert isinstance(forked, ForkStep)
        assert [len(branch) for branch in forked.branches] == [2, 1]
        assert joined == JoinStep(reference_name="j", name="j", join_on=("c", "d"))

    def test_a_task_without_a_type_is_simple(self) -> None:
        task: JsonObject = {"name": "task", "taskReferenceName": "a"}
        (step,) = parse_workflow_definition(workflow(task)).steps
        assert isinstance(step, SimpleStep)

    def test_the_version_defaults_to_one(self) -> None:
        assert parse_workflow_definition(workflow(simple("a"), version=None)).version == 1

    def test_a_wait_made_of_an_expression_is_judged_when_it_begins(self) -> None:
        wait: JsonObject = {
            "name": "w",
            "taskReferenceName": "w",
            "type": "WAIT",
            "inputParameters": {"duration": "${workflow.input.pause}"},
        }
        assert parse_workflow_definition(workflow(wait)).steps

    @pytest.mark.parametrize("kind", ["HTTP", "SWITCH", "DO_WHILE", "SUB_WORKFLOW", "INLINE"])
    def test_another_type_is_refused_by_name(self, kind: str) -> None:
        with pytest.raises(InvalidDefinitionError) as refused:
            parse_workflow_definition(workflow(simple("a"), simple("other-one", type=kind)))
        assert "'flow'" in refused.value.message
        assert "'other-one'" in refused.value.message
        assert kind in refused.value.message
        assert "SIMPLE, FORK_JOIN, JOIN, HUMAN, WAIT" in str(refused.value.hint)

    def test_another_type_is_refused_inside_a_branch_too(self) -> None:
        with pytest.raises(InvalidDefinitionError, match=r"'deep'.*HTTP"):
            parse_workflow_definition(workflow(fork([simple("deep", type="HTTP")]), join("deep")))

    @pytest.mark.parametrize(
        ("source", "problem"),
        [
            (workflow(simple("a"), name=""), "name is ''"),
            (workflow(simple("a"), version=0), "version is 0"),
            (workflow(), "tasks is empty"),
            (workflow(simple("a"), tasks="x"), "tasks is 'x'"),
            (workflow("x"), "task 1 is not an object"),
            (workflow(simple("")), "taskReferenceName is ''"),
            (workflow(simple("a", name=None)), "name is missing"),
            (workflow(simple("a", optional="yes")), "optional is 'yes'"),
            (workflow(simple("a", inputParameters=[])), "inputParameters is []"),
            (workflow(simple("a"), schemaVersion=1), "schemaVersion must be 2"),
            (workflow(simple("a"), failureWorkflow="x"), "failureWorkflow is not supported"),
            (workflow(simple("a"), timeoutPolicy="RETRY"), "timeoutPolicy is 'RETRY'"),
            (workflow(simple("a"), simple("a")), "two tasks have the taskReferenceName 'a'"),
            (workflow(simple("workflow")), "taskReferenceName 'workflow'"),
            (workflow(fork(), join()), "forkTasks is empty"),
            (workflow(fork([]), join()), "branch 1 of forkTasks has no tasks"),
            (workflow(fork([simple("a")])), "no JOIN follows the fork 'f'"),
            (workflow(fork([simple("a")]), simple("b")), "no JOIN follows the fork 'f'"),
            (workflow(simple("a"), join("a")), "no FORK_JOIN stands right before this JOIN"),
            (
                workflow(simple("b"), fork([simple("a")]), join("a", "b")),
                "joinOn names 'b', which is no task of the fork 'f'",
            ),
            (workflow(fork([simple("a")]), join("nobody")), "joinOn names 'nobody'"),
            (workflow(fork([simple("a")]), join(1)), "joinOn must hold texts"),
            (
                workflow(simple("a", type="WAIT", inputParameters={"duration": "a while"})),
                "duration 'a while' is not understood",
            ),
            (
                workflow(simple("a", inputParameters={"x": {"y": ["${b.output.z}"]}})),
                "speaks of 'b', which is no task of this workflow",
            ),
            (
                workflow(simple("a"), outputParameters={"x": "${gone.output}"}),
                "outputParameters: ${gone.output} speaks of 'gone'",
            ),
            (
                workflow(simple("a", inputParameters={"x": "${workflow.input.rows[*].id}"})),
                "${workflow.input.rows[*].id} is not a plain path",
            ),
            (
                workflow(simple("a", taskDefinition={"retryCount": -1})),
                "retryCount is -1",
            ),
        ],
    )
    def test_what_cannot_run_is_named(self, source: JsonObject, problem: str) -> None:
        with pytest.raises(InvalidDefinitionError, match=re.escape(problem)) as refused:
            parse_workflow_definition(source)
        assert refused.value.hint


class TestBinding:
    def test_registered_definitions_go_into_the_workflow(self) -> None:
        registered: dict[str, JsonObject] = {"task": {"name": "task", "retryCount": 7}}
        source = workflow(simple("a"), fork([simple("b")]), join("b"))
        bound = parse_workflow_definition(bind_task_definitions(source, registered.get))
        retries = [
            step.max_retries for step in bound.by_reference.values() if isinstance(step, SimpleStep)
        ]
        assert retries == [7, 7]

    def test_a_definition_inside_the_workflow_wins(self) -> None:
        own: JsonObject = {"name": "task", "retryCount": 1}
        source = workflow(simple("a", taskDefinition=own))
        (step,) = parse_workflow_definition(bind_task_definitions(source, NOTHING.get)).steps
        assert isinstance(step, SimpleStep)
        assert step.max_retries == 1

    def test_an_unregistered_task_is_a_key_error_with_its_name(self) -> None:
        with pytest.raises(KeyError, match="task"):
            bind_task_definitions(workflow(fork([simple("a")]), join("a")), NOTHING.get)

"""What the contract suite does not reach: policies, limits and corners of the engine."""

from datetime import UTC, datetime, timedelta

import pytest

from perago.adapters.embedded.orchestrator.engine.deadlines import plan_wake_up
from perago.adapters.embedded.orchestrator.engine.decide import (
    HandOut,
    Heartbeat,
    Report,
    TimePassed,
    decide,
    start_instance,
)
from perago.adapters.embedded.orchestrator.engine.definitions import RetryLogic, TaskDefinition
from perago.adapters.embedded.orchestrator.engine.instance import Instance, TaskRecord
from perago.adapters.embedded.orchestrator.engine.parsing import parse_workflow_definition
from perago.adapters.embedded.orchestrator.engine.rules import plan_retry_delay
from perago.domain.attempt import AttemptStatus
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.outcome import Completed, Failed, JsonObject, JsonValue, Phase
from perago.domain.workflow import WorkflowStatus

START = datetime(2030, 1, 1, tzinfo=UTC)


def simple(reference: str, definition: JsonObject | None = None, **fields: JsonValue) -> JsonObject:
    task: JsonObject = {
        "name": "task",
        "taskReferenceName": reference,
        "type": "SIMPLE",
        "taskDefinition": {"name": "task", "retryCount": 0, **(definition or {})},
    }
    return task | fields


def system(kind: str, reference: str, **fields: JsonValue) -> JsonObject:
    task: JsonObject = {"name": kind, "taskReferenceName": reference, "type": kind}
    return task | fields


def start(
    *tasks: JsonValue, workflow_input: JsonObject | None = None, **fields: JsonValue
) -> Instance:
    source: JsonObject = {"name": "flow", "tasks": list(tasks)}
    definition = parse_workflow_definition(source | fields)
    return start_instance(WorkflowId("w"), definition, workflow_input or {}, START)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def one(instance: Instance, reference: str) -> TaskRecord:
    return instance.current()[reference]


def hand_out(instance: Instance, reference: str, seconds: float = 0) -> Instance:
    event = HandOut(task_id=one(instance, reference).task_id, worker_id=WorkerId("worker"))
    return decide(instance, event, at(seconds))


def complete(
    instance: Instance, reference: str, seconds: float = 0, **output: JsonValue
) -> Instance:
    event = Report(task_id=one(instance, reference).task_id, outcome=Completed(output=dict(output)))
    return decide(instance, event, at(seconds))


def wait(instance: Instance, seconds: float) -> Instance:
    return decide(instance, TimePassed(), at(seconds))


class TestTimeouts:
    def test_a_task_that_nobody_polls_times_out(self) -> None:
        definition: JsonObject = {
            "pollTimeoutSeconds": 30,
            "timeoutPolicy": "RETRY",
            "retryCount": 1,
        }
        instance = start(simple("a", definition))
        assert plan_wake_up(instance) == at(30)
        assert one(wait(instance, 29), "a").retry_count == 0
        instance = wait(instance, 30)
        assert instance.tasks[0].status is AttemptStatus.TIMED_OUT
        assert "pollTimeoutSeconds" in str(instance.tasks[0].reason)
        assert one(instance, "a").retry_count == 1

    def test_the_poll_time_out_begins_when_it_can_be_polled(self) -> None:
        definition: JsonObject = {"pollTimeoutSeconds": 30, "timeoutPolicy": "RETRY"}
        instance = start(simple("a", definition, startDelay=10))
        assert plan_wake_up(instance) == at(40)

    @pytest.mark.parametrize("field", ["timeoutSeconds", "pollTimeoutSeconds"])
    def test_alert_only_changes_nothing_and_wakes_nobody(self, field: str) -> None:
        definition: JsonObject = {
            field: 30,
            "timeoutPolicy": "ALERT_ONLY",
            "responseTimeoutSeconds": 30,
        }
        instance = start(simple("a", definition))
        assert plan_wake_up(instance) is None
        instance = hand_out(wait(instance, 100), "a", 100)
        assert one(instance, "a").status is AttemptStatus.IN_PROGRESS
        assert plan_wake_up(instance) == at(130), "the lease"

    def test_of_two_that_have_passed_the_earlier_counts(self) -> None:
        definition: JsonObject = {
            "responseTimeoutSeconds": 10,
            "timeoutSeconds": 60,
            "timeoutPolicy": "TIME_OUT_WF",
            "retryCount": 1,
        }
        instance = wait(hand_out(start(simple("a", definition)), "a"), 1000)
        assert "responseTimeoutSeconds" in str(instance.tasks[0].reason)
        assert instance.status is WorkflowStatus.RUNNING

    def test_a_workflow_times_out_as_a_whole(self) -> None:
        instance = start(simple("a"), simple("b"), timeoutSeconds=60, timeoutPolicy="TIME_OUT_WF")
        assert plan_wake_up(instance) == at(60)
        instance = wait(hand_out(instance, "a"), 60)
        assert instance.status is WorkflowStatus.TIMED_OUT
        assert "timeoutSeconds" in str(instance.reason)
        assert one(instance, "a").status is AttemptStatus.CANCELED
        assert plan_wake_up(instance) is None

    def test_a_workflow_that_only_alerts_goes_on(self) -> None:
        instance = start(simple("a"), timeoutSeconds=60, timeoutPolicy="ALERT_ONLY")
        assert plan_wake_up(instance) is None
        assert wait(instance, 1000).status is WorkflowStatus.RUNNING

    def test_a_heartbeat_before_the_hand_out_changes_nothing(self) -> None:
        instance = start(simple("a"))
        beat = Heartbeat(task_id=one(instance, "a").task_id)
        assert decide(instance, beat, at(1)) == instance

    def test_events_about_unknown_attempts_change_nothing(self) -> None:
        instance = start(simple("a"))
        assert decide(instance, Heartbeat(task_id=TaskId("unknown")), at(1)) == instance


class TestScheduling:
    def test_a_start_delay_holds_a_task_back(self) -> None:
        instance = start(simple("a", startDelay=5))
        assert one(hand_out(instance, "a", 4), "a").status is AttemptStatus.SCHEDULED
        assert one(hand_out(instance, "a", 5), "a").status is AttemptStatus.IN_PROGRESS

    def test_forks_may_stand_inside_forks(self) -> None:
        inner: list[JsonValue] = [
            system("FORK_JOIN", "f2", forkTasks=[[simple("a")], [simple("b")]]),
            system("JOIN", "j2", joinOn=["a", "b"]),
        ]
        instance = start(
            system("FORK_JOIN", "f1", forkTasks=[inner, [simple("c")]]),
            system("JOIN", "j1", joinOn=["j2", "c"]),
        )
        assert [record.reference_name for record in instance.tasks] == [
            *("f1", "f2", "c", "j1"),
            *("a", "b", "j2"),
        ]
        for reference in ("a", "c", "b"):
            assert instance.status is WorkflowStatus.RUNNING
            instance = complete(instance, reference, n=reference)
        assert instance.status is WorkflowStatus.COMPLETED
        assert one(instance, "j1").output == {
            "j2": {"a": {"n": "a"}, "b": {"n": "b"}},
            "c": {"n": "c"},
        }

    def test_a_join_on_some_leaves_the_workflow_open_for_the_rest(self) -> None:
        instance = start(
            system("FORK_JOIN", "f", forkTasks=[[simple("a")], [simple("b")]]),
            system("JOIN", "j", joinOn=["a"]),
            simple("c"),
        )
        instance = complete(complete(instance, "a"), "c")
        assert instance.status is WorkflowStatus.RUNNING
        assert complete(instance, "b").status is WorkflowStatus.COMPLETED

    def test_an_optional_human_task_may_be_refused(self) -> None:
        instance = start(system("HUMAN", "h", optional=True), simple("a"))
        refusal = Report(
            task_id=one(instance, "h").task_id, outcome=Failed(reason="no", phase=Phase.BODY)
        )
        instance = decide(instance, refusal, at(0))
        assert one(instance, "h").status is AttemptStatus.COMPLETED_WITH_ERRORS
        assert one(instance, "a").status is AttemptStatus.SCHEDULED


class TestWaits:
    def test_a_wait_until_a_moment(self) -> None:
        instance = start(system("WAIT", "w", inputParameters={"until": "2030-01-01 00:01"}))
        assert plan_wake_up(instance) == at(60)
        assert wait(instance, 59).status is WorkflowStatus.RUNNING
        assert wait(instance, 60).status is WorkflowStatus.COMPLETED

    def test_a_wait_without_an_end_waits_for_a_report(self) -> None:
        instance = start(system("WAIT", "w"))
        assert plan_wake_up(instance) is None
        assert wait(instance, 10**6).status is WorkflowStatus.RUNNING
        assert complete(instance, "w").status is WorkflowStatus.COMPLETED

    def test_an_expression_that_makes_no_duration_fails_the_task(self) -> None:
        instance = start(
            system("WAIT", "w", inputParameters={"duration": "${workflow.input.pause}"}),
            workflow_input={"pause": "a while"},
        )
        assert instance.status is WorkflowStatus.FAILED
        assert one(instance, "w").status is AttemptStatus.FAILED_WITH_TERMINAL_ERROR
        assert "'a while'" in str(instance.reason)


class TestInputs:
    def test_templates_fill_what_is_missing_or_null(self) -> None:
        template: JsonObject = {"a": 1, "b": 2, "c": 3}
        inputs: JsonObject = {"b": "${workflow.input.gone}", "c": 30, "d": None}
        instance = start(simple("x", {"inputTemplate": template}, inputParameters=inputs))
        assert one(instance, "x").input == {"a": 1, "b": 2, "c": 30, "d": None}

    def test_a_workflow_has_a_template_too(self) -> None:
        instance = start(simple("x"), workflow_input={"b": 20}, inputTemplate={"a": 1, "b": 2})
        assert instance.input == {"a": 1, "b": 20}

    def test_task_ids_are_a_function_of_instance_and_number(self) -> None:
        first, again = start(simple("a")), start(simple("a"))
        assert first.tasks[0].task_id == again.tasks[0].task_id
        other = start_instance(WorkflowId("v"), first.definition, {}, START)
        assert other.tasks[0].task_id != first.tasks[0].task_id


@pytest.mark.parametrize(
    ("definition", "delays"),
    [
        (TaskDefinition(name="t", retry_delay_seconds=5), [5, 5, 5]),
        (
            TaskDefinition(
                name="t",
                retry_delay_seconds=5,
                retry_logic=RetryLogic.LINEAR_BACKOFF,
                backoff_scale_factor=2,
            ),
            [10, 20, 30],
        ),
        (
            TaskDefinition(
                name="t", retry_delay_seconds=5, retry_logic=RetryLogic.EXPONENTIAL_BACKOFF
            ),
            [5, 10, 20],
        ),
        (
            TaskDefinition(
                name="t",
                retry_delay_seconds=5,
                retry_logic=RetryLogic.EXPONENTIAL_BACKOFF,
                max_retry_delay_seconds=12,
            ),
            [5, 10, 12],
        ),
    ],
    ids=["fixed", "linear", "exponential", "capped"],
)
def test_retry_delays(definition: TaskDefinition, delays: list[int]) -> None:
    found = [plan_retry_delay(definition, retry_count) for retry_count in range(3)]
    assert found == [timedelta(seconds=delay) for delay in delays]


def test_a_delay_never_overflows() -> None:
    definition = TaskDefinition(
        name="t", retry_delay_seconds=60, retry_logic=RetryLogic.EXPONENTIAL_BACKOFF
    )
    assert plan_retry_delay(definition, 10_000) == timedelta(seconds=2**31 - 1)

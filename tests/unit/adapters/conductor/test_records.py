"""What a reading of an instance says of one of its tasks."""

from __future__ import annotations

import pytest

from perago.adapters.conductor.answers import Asked
from perago.adapters.conductor.polled_tasks import build_polled_task
from perago.adapters.conductor.records import build_snapshot
from perago.domain.attempt import AttemptStatus
from perago.domain.errors import OrchestratorError
from perago.domain.ids import TaskId
from perago.domain.outcome import JsonObject, JsonValue

ASKED = Asked(what="look at task a", missing="there is no task 'a'")


def task(task_id: str, **fields: JsonValue) -> JsonObject:
    known: JsonObject = {
        "workflowInstanceId": "w",
        "taskId": task_id,
        "taskDefName": "t",
        "referenceTaskName": "only",
        "status": "IN_PROGRESS",
        "retryCount": 0,
        "seq": 1,
        "iteration": 0,
        "pollCount": 1,
        "workerId": "worker-1",
        "responseTimeoutSeconds": 60,
    }
    return known | fields


def look(*tasks: JsonObject, workflow_status: str = "RUNNING") -> AttemptStatus | None:
    workflow: JsonObject = {"workflowId": "w", "status": workflow_status, "tasks": [*tasks]}
    found = build_snapshot(workflow, TaskId("a"), ASKED)
    return found.status if found else None


def test_the_only_task_of_its_step_is_what_the_server_says() -> None:
    assert look(task("a")) is AttemptStatus.IN_PROGRESS
    assert look(task("a", status="COMPLETED")) is AttemptStatus.COMPLETED


@pytest.mark.parametrize(
    "later",
    [
        task("b", seq=2, retryCount=1, status="SCHEDULED"),
        task("b", seq=2, retryCount=1, status="COMPLETED"),
        task("b", seq=2),
        task("b", retryCount=1),
    ],
)
def test_a_revived_task_with_a_later_one_beside_it_is_timed_out(later: JsonObject) -> None:
    assert look(task("a"), later) is AttemptStatus.TIMED_OUT
    assert look(later, task("a")) is AttemptStatus.TIMED_OUT


@pytest.mark.parametrize(
    "other",
    [
        task("b", seq=2, referenceTaskName="next"),
        task("b", seq=2, iteration=1),
        task("b", seq=0, status="TIMED_OUT"),
    ],
)
def test_other_steps_iterations_and_earlier_tasks_do_not_count(other: JsonObject) -> None:
    assert look(task("a", retryCount=0), other) is AttemptStatus.IN_PROGRESS


def test_a_task_that_a_rerun_queued_again_is_open_and_retried() -> None:
    workflow: JsonObject = {
        "workflowId": "w",
        "status": "RUNNING",
        "tasks": [task("a", retried=True), task("b", seq=2, retryCount=1, status="COMPLETED")],
    }
    found = build_snapshot(workflow, TaskId("a"), ASKED)
    assert found is not None
    assert found.status is AttemptStatus.IN_PROGRESS
    assert found.is_retried


def test_a_task_left_open_in_an_instance_that_is_over_is_cancelled() -> None:
    assert look(task("a"), workflow_status="TERMINATED") is AttemptStatus.CANCELED


def test_a_task_that_the_instance_does_not_have_is_not_found() -> None:
    assert look(task("b")) is None


@pytest.mark.parametrize(
    "broken",
    [
        task("a", status="SLEEPING"),
        task("a", retryCount=None),
        task("a", pollCount="1"),
        task("a", pollCount=True),
        task("a", scheduledTime="1795122731259"),
        task("a", retried="false"),
    ],
)
def test_what_cannot_be_read_is_an_error(broken: JsonObject) -> None:
    with pytest.raises(OrchestratorError, match="not one of a Conductor server"):
        look(broken)


def test_a_polled_task_without_a_definition_has_no_overall_time_out() -> None:
    polled = build_polled_task(task("a"), ASKED)
    assert (polled.lease_seconds, polled.timeout_seconds, polled.input) == (60, None, {})

"""A batch of polled tasks of which one cannot be used."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from perago.adapters.conductor import ConductorConnection, ConductorOrchestrator
from perago.domain.errors import OrchestratorError
from perago.domain.ids import TaskId, WorkerId
from perago.domain.outcome import JsonObject, JsonValue
from perago.domain.workflow import PolledTask
from tests.unit.adapters.conductor.byte_server import ByteServer, byte_server


@pytest.fixture
def server() -> Iterator[ByteServer]:
    with byte_server() as running:
        yield running


def task(task_id: str, **fields: JsonValue) -> JsonObject:
    known: JsonObject = {
        "workflowInstanceId": "w",
        "taskId": task_id,
        "taskDefName": "t",
        "referenceTaskName": "only",
        "status": "IN_PROGRESS",
        "retryCount": 1,
        "seq": 2,
        "iteration": 0,
        "pollCount": 1,
        "workerId": "worker-1",
        "responseTimeoutSeconds": 60,
        "scheduledTime": 1795122731259,
        "startTime": 1795122731266,
        "updateTime": 1795122731267,
        "retriedTaskId": "before",
        "inputData": {"params": {}},
        "taskDefinition": {"timeoutSeconds": 90},
    }
    return known | fields


def poll(server: ByteServer, *tasks: JsonObject | bytes) -> dict[str, PolledTask]:
    raw = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in tasks]
    server.answer = b"[" + b",".join(raw) + b"]"
    with ConductorOrchestrator(ConductorConnection(url=server.url, retry_seconds=0)) as client:
        taken = client.poll(["t"], worker_id=WorkerId("worker-1"), count=9, wait_seconds=0)
    return {one.attempt.task_id: one for one in taken}


def with_input(raw: bytes) -> bytes:
    text = json.dumps(task("bad", inputData="HERE")).encode()
    return text.replace(b'"HERE"', raw)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"[" * 900 + b"]" * 900, "nested deeper than 200 levels"),
        (b'{"a":' * 201 + b"1" + b"}" * 201, "nested deeper than 200 levels"),
        (b'{"a":' * 9000 + b"1" + b"}" * 9000, "nested deeper than 200 levels"),
        (b'{"n":' + b"9" * 5000 + b"}", "n is a number of more than 1,000 digits"),
        (b'{"n":' + b"9" * 2000 + b"}", "n is a number of more than 1,000 digits"),
        (b'{"n":NaN}', "n is nan"),
        (b'{"t":"\\ud800"}', "t is a text that is not valid Unicode"),
        (b'{"t":"\xff"}', "t is a text that is not valid Unicode"),
        (b'{"t":tru}', "it is no JSON"),
        (b'"text"', "it is no object"),
    ],
    ids=["list", "object", "very deep", "5000", "2000", "nan", "half", "utf8", "no JSON", "text"],
)
def test_an_input_that_cannot_be_used_costs_its_own_task_alone(
    server: ByteServer, raw: bytes, reason: str
) -> None:
    taken = poll(server, task("first"), with_input(raw), task("last"))
    assert list(taken) == ["first", "bad", "last"]
    bad = taken["bad"]
    assert reason in (bad.refusal or "")
    assert bad.input == {}
    # It can be reported: all that a report compares is there.
    assert (bad.attempt.workflow_id, bad.attempt.retry_count) == ("w", 1)
    assert (bad.attempt.worker_id, bad.attempt.poll_count) == ("worker-1", 1)
    assert bad.attempt.scheduled_time == 1795122731259
    assert bad.attempt.retried_task_id == TaskId("before")
    for healthy in (taken["first"], taken["last"]):
        assert (healthy.refusal, healthy.input) == (None, {"params": {}})


def test_an_input_that_is_stored_elsewhere_is_refused_by_name(server: ByteServer) -> None:
    stored = task("bad", inputData={}, externalInputPayloadStoragePath="b7a1.json")
    taken = poll(server, stored, task("last"))
    assert "externalInputPayloadStoragePath b7a1.json" in (taken["bad"].refusal or "")
    assert taken["last"].refusal is None


def test_an_attempt_that_a_later_one_replaced_is_refused(server: ByteServer) -> None:
    refusal = poll(server, task("old", retried=True))["old"].refusal
    assert refusal == "a later attempt of its step has taken its place"


@pytest.mark.parametrize(
    "fields",
    [
        {"startTime": 10**18},
        {"startTime": -(10**18), "updateTime": 2**62},
        {"updateTime": "yesterday"},
        {"startTime": 1e300},
        {"startTime": True},
        {"responseTimeoutSeconds": 10**30},
        {"responseTimeoutSeconds": None},
        {"responseTimeoutSeconds": -5},
        {"taskDefinition": {"timeoutSeconds": "long"}},
        {"taskDefinition": []},
        {"retried": "no"},
    ],
    ids=str,
)
def test_limits_that_cannot_be_right_cost_their_own_task_alone(
    server: ByteServer, fields: JsonObject
) -> None:
    taken = poll(server, task("bad", **fields), task("last"))
    assert taken["last"].refusal is None
    if fields != {"startTime": -(10**18), "updateTime": 2**62}:
        assert taken["bad"].refusal


@pytest.mark.parametrize(
    "fields",
    [
        {"taskId": None},
        {"taskId": 7},
        {"taskId": "\ud800"},
        {"retryCount": "1"},
        {"retryCount": True},
        {"pollCount": 1.5},
        {"seq": 2**64},
        {"workerId": 7},
        {"workflowInstanceId": {}},
        {"referenceTaskName": "x" * 60_000},
        {"scheduledTime": "now"},
    ],
    ids=lambda fields: str(fields)[:40],
)
def test_what_has_no_identity_is_left_to_its_time_out(
    server: ByteServer, fields: JsonObject, caplog: pytest.LogCaptureFixture
) -> None:
    taken = poll(server, task("first"), task("bad", **fields), task("last"))
    assert list(taken) == ["first", "last"]
    assert "left to its time-out" in caplog.text


def test_of_an_answer_that_is_cut_off_what_is_complete_is_kept(server: ByteServer) -> None:
    server.answer = b"[" + json.dumps(task("first")).encode() + b',{"taskId":"cut'
    with ConductorOrchestrator(ConductorConnection(url=server.url)) as client:
        taken = client.poll(["t"], worker_id=WorkerId("w"), count=9, wait_seconds=0)
    assert [one.attempt.task_id for one in taken] == ["first"]


@pytest.mark.parametrize("answer", [b"{}", b"<html>", b"[", b"tru", b'{"tasks":[]}', b"7"])
def test_an_answer_without_tasks_is_an_error(server: ByteServer, answer: bytes) -> None:
    server.answer = answer
    with (
        ConductorOrchestrator(ConductorConnection(url=server.url)) as client,
        pytest.raises(OrchestratorError, match="not one of a Conductor server"),
    ):
        client.poll(["t"], worker_id=WorkerId("w"), count=9, wait_seconds=0)

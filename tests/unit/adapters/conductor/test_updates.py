"""What is sent to change a task."""

from __future__ import annotations

import json

import pytest

from perago.adapters.conductor.updates import build_hand_back, build_heartbeat, build_report
from perago.domain.attempt import Attempt
from perago.domain.errors import OrchestratorError
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.outcome import Completed, Failed, JsonObject, JsonValue, Phase

ATTEMPT = Attempt(
    workflow_id=WorkflowId("w"),
    task_id=TaskId("t"),
    task_name="name",
    reference_name="only",
    worker_id=WorkerId("worker-1"),
    poll_count=1,
)
IDENTITY = {"workflowInstanceId": "w", "taskId": "t", "workerId": "worker-1"}


def test_a_heartbeat_carries_nothing_but_the_lease() -> None:
    expected = IDENTITY | {"status": "IN_PROGRESS", "extendLease": True}
    assert json.loads(build_heartbeat(ATTEMPT)) == expected


def test_what_is_handed_back_is_nobody_s() -> None:
    sent = json.loads(build_hand_back(ATTEMPT))
    assert sent["callbackAfterSeconds"] == 0
    assert "extendLease" not in sent
    assert "workerId" not in sent


def test_a_completion_carries_its_output() -> None:
    sent = json.loads(build_report(ATTEMPT, Completed(output={"ü": [1]}), max_output_bytes=20))
    assert sent == IDENTITY | {"status": "COMPLETED", "outputData": {"ü": [1]}}


DEEP: JsonValue = 1
for _ in range(900):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "output",
    [
        {"x": "y" * 20},
        {"x": float("nan")},
        {"x": 10**1500},
        {"x": 10**5000},
        {"x": "\ud800"},
        {"x": DEEP},
    ],
    ids=["size", "nan", "digits", "more digits", "half a character", "depth"],
)
def test_an_output_that_cannot_be_kept_is_refused_before_it_is_sent(output: JsonObject) -> None:
    with pytest.raises(OrchestratorError, match="the output of task t"):
        build_report(ATTEMPT, Completed(output={**output}), max_output_bytes=20)


def test_a_reason_that_is_no_unicode_is_sent_all_the_same() -> None:
    failed = Failed(reason="no file \udcff", phase=Phase.BODY)
    sent = json.loads(build_report(ATTEMPT, failed, max_output_bytes=20))
    assert sent["reasonForIncompletion"] == "no file \\udcff"


def test_a_long_reason_is_cut_where_one_can_see_it() -> None:
    failed = Failed(reason="x" * 4000, phase=Phase.BODY)
    reason = json.loads(build_report(ATTEMPT, failed, max_output_bytes=20))["reasonForIncompletion"]
    assert len(reason) == 500
    assert reason.endswith("(cut)")

"""Whose report is sent: field by field, for each ending."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.attempt import Attempt, AttemptSnapshot, AttemptStatus, decide_staleness
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.outcome import Completed, Failed, Outcome, Phase, TerminalFailure
from perago.domain.reports import AlreadyReported, SendReport, StaleReport, decide_report
from perago.testing.strategies import attempt_snapshots, attempts

COMPLETED = Completed(output={"result": {}})
FAILED = Failed(reason="no", phase=Phase.BODY)
TERMINAL = TerminalFailure(reason="never", phase=Phase.BODY)
ATTEMPT = Attempt(
    workflow_id=WorkflowId("w1"),
    task_id=TaskId("t1"),
    task_name="clean_flights",
    reference_name="clean",
    worker_id=WorkerId("me"),
    poll_count=1,
    scheduled_time=1000,
)
CURRENT = AttemptSnapshot(
    status=AttemptStatus.IN_PROGRESS,
    workflow_id=WorkflowId("w1"),
    task_id=TaskId("t1"),
    retry_count=0,
    worker_id=WorkerId("me"),
    poll_count=1,
    scheduled_time=1000,
)
EVERY_END = pytest.mark.parametrize("outcome", [COMPLETED, FAILED, TERMINAL])
OTHERS = {
    "rerun": replace(CURRENT, scheduled_time=2000),
    "delivered again": replace(CURRENT, poll_count=2),
    "handed to another": replace(CURRENT, worker_id=WorkerId("you")),
    "revived": replace(CURRENT, retry_count=1, scheduled_time=2000),
    "handed back": replace(CURRENT, status=AttemptStatus.SCHEDULED, worker_id=None),
    "timed out": replace(CURRENT, status=AttemptStatus.TIMED_OUT),
    "cancelled": replace(CURRENT, status=AttemptStatus.CANCELED),
}


@EVERY_END
def test_the_current_delivery_reports(outcome: Outcome) -> None:
    assert decide_report(ATTEMPT, CURRENT, outcome) == SendReport()


@EVERY_END
@pytest.mark.parametrize("snapshot", OTHERS.values(), ids=OTHERS)
def test_nobody_reports_for_another_delivery(outcome: Outcome, snapshot: AttemptSnapshot) -> None:
    assert isinstance(decide_report(ATTEMPT, snapshot, outcome), StaleReport)


@EVERY_END
def test_what_is_recorded_already_is_not_sent_again(outcome: Outcome) -> None:
    recorded = replace(CURRENT, status=outcome.status, is_retried=outcome is FAILED)
    assert decide_report(ATTEMPT, recorded, outcome) == AlreadyReported()


@EVERY_END
def test_the_same_ending_of_another_delivery_is_not_ours(outcome: Outcome) -> None:
    theirs = replace(CURRENT, status=outcome.status, scheduled_time=2000)
    assert isinstance(decide_report(ATTEMPT, theirs, outcome), StaleReport)


def test_an_optional_step_s_failure_is_recorded_under_another_name() -> None:
    passed = replace(CURRENT, status=AttemptStatus.COMPLETED_WITH_ERRORS)
    assert decide_report(ATTEMPT, passed, TERMINAL) == AlreadyReported()
    assert isinstance(decide_report(ATTEMPT, passed, COMPLETED), StaleReport)


def test_an_attempt_that_a_later_one_replaced_may_only_fail() -> None:
    replaced = replace(CURRENT, is_retried=True)
    assert isinstance(decide_report(ATTEMPT, replaced, COMPLETED), StaleReport)
    assert decide_report(ATTEMPT, replaced, FAILED) == SendReport()
    elsewhere = replace(replaced, poll_count=2)
    assert isinstance(decide_report(ATTEMPT, elsewhere, FAILED), StaleReport)


@given(st.data(), attempts(), st.sampled_from([COMPLETED, FAILED, TERMINAL]))
def test_a_completed_attempt_reports_exactly_while_it_is_current(
    data: st.DataObject, attempt: Attempt, outcome: Outcome
) -> None:
    snapshot = data.draw(attempt_snapshots(attempt))
    decision = decide_report(attempt, snapshot, outcome)
    if decide_staleness(attempt, snapshot) is None:
        assert decision == SendReport()
    elif outcome is COMPLETED or not snapshot.is_retried:
        assert decision != SendReport()

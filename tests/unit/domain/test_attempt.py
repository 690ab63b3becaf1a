"""The attempt fence, field by field."""

from dataclasses import replace

import pytest

from perago.domain.attempt import (
    Attempt,
    AttemptSnapshot,
    AttemptStatus,
    LogicalTask,
    assert_current_attempt_snapshot,
    decide_orphan,
    decide_staleness,
)
from perago.domain.errors import StaleAttemptError
from perago.domain.ids import TaskId, WorkerId, WorkflowId

ATTEMPT = Attempt(
    workflow_id=WorkflowId("w1"),
    task_id=TaskId("t1"),
    task_name="clean_flights",
    reference_name="clean",
    retry_count=1,
    seq=4,
    iteration=2,
    worker_id=WorkerId("me"),
    poll_count=1,
    scheduled_time=1,
)
CURRENT = AttemptSnapshot(
    status=AttemptStatus.IN_PROGRESS,
    workflow_id=WorkflowId("w1"),
    task_id=TaskId("t1"),
    retry_count=1,
    worker_id=WorkerId("me"),
    poll_count=1,
    scheduled_time=1,
)


def test_an_attempt_of_which_no_more_is_known_is_the_first_of_its_step() -> None:
    attempt = Attempt(
        workflow_id=WorkflowId("w1"), task_id=TaskId("t1"), task_name="clean", reference_name="ref"
    )

    assert (attempt.retry_count, attempt.seq, attempt.iteration) == (0, 0, 0)


@pytest.mark.parametrize(
    ("attempt", "snapshot"),
    [
        pytest.param(ATTEMPT, CURRENT, id="all fields equal"),
        pytest.param(ATTEMPT, replace(CURRENT, worker_id=None), id="no worker id in the answer"),
        pytest.param(ATTEMPT, replace(CURRENT, poll_count=None), id="no poll count in the answer"),
        pytest.param(
            ATTEMPT, replace(CURRENT, scheduled_time=None), id="no schedule in the answer"
        ),
        pytest.param(replace(ATTEMPT, worker_id=None), CURRENT, id="polled without a worker id"),
        pytest.param(replace(ATTEMPT, poll_count=None), CURRENT, id="polled without a poll count"),
    ],
)
def test_the_current_attempt_passes(attempt: Attempt, snapshot: AttemptSnapshot) -> None:
    assert decide_staleness(attempt, snapshot) is None
    assert_current_attempt_snapshot(attempt, snapshot)


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        *(
            pytest.param(replace(CURRENT, status=status), str(status), id=f"status {status}")
            for status in AttemptStatus
            if status is not AttemptStatus.IN_PROGRESS
        ),
        pytest.param(replace(CURRENT, workflow_id=WorkflowId("w2")), "workflow w2", id="workflow"),
        pytest.param(replace(CURRENT, task_id=TaskId("t2")), "task t2", id="task id"),
        pytest.param(replace(CURRENT, retry_count=2), "retry count is 2", id="retried since"),
        pytest.param(replace(CURRENT, retry_count=0), "retry count is 0", id="an earlier retry"),
        pytest.param(replace(CURRENT, worker_id=WorkerId("you")), "worker you", id="worker"),
        pytest.param(replace(CURRENT, poll_count=2), "delivered again", id="poll count"),
        pytest.param(replace(CURRENT, scheduled_time=2), "scheduled anew", id="scheduled time"),
        pytest.param(replace(CURRENT, is_retried=True), "a later attempt", id="retried"),
    ],
)
def test_anything_else_is_stale(snapshot: AttemptSnapshot, reason: str) -> None:
    with pytest.raises(StaleAttemptError, match=reason) as caught:
        assert_current_attempt_snapshot(ATTEMPT, snapshot)
    assert "task t1 (clean) may not publish" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param(replace(ATTEMPT, retry_count=7), True, id="retry count"),
        pytest.param(replace(ATTEMPT, task_id=TaskId("t9")), True, id="task id"),
        pytest.param(replace(ATTEMPT, seq=9), True, id="seq"),
        pytest.param(replace(ATTEMPT, worker_id=None, poll_count=9), True, id="delivery"),
        pytest.param(replace(ATTEMPT, workflow_id=WorkflowId("w2")), False, id="workflow"),
        pytest.param(replace(ATTEMPT, reference_name="join"), False, id="reference name"),
        pytest.param(replace(ATTEMPT, iteration=3), False, id="iteration"),
    ],
)
def test_what_makes_a_logical_task(other: Attempt, same: bool) -> None:
    assert ATTEMPT.logical_task == LogicalTask(
        workflow_id=WorkflowId("w1"), reference_name="clean", iteration=2
    )
    assert (other.logical_task == ATTEMPT.logical_task) is same


def test_open_and_terminal_statuses() -> None:
    assert {status for status in AttemptStatus if not status.is_terminal} == {
        AttemptStatus.SCHEDULED,
        AttemptStatus.IN_PROGRESS,
    }


ROOT_WORKER = WorkerId("me")


def is_root_worker(worker_id: WorkerId) -> bool:
    return worker_id == ROOT_WORKER


def test_an_attempt_that_a_dead_worker_holds_is_an_orphan() -> None:
    assert decide_orphan(ATTEMPT, CURRENT, is_dead=is_root_worker) == ATTEMPT


def test_what_a_marker_lacks_the_orchestrator_tells() -> None:
    attempt = replace(ATTEMPT, worker_id=None, poll_count=None, scheduled_time=None)
    snapshot = replace(CURRENT, poll_count=7, scheduled_time=5)

    orphan = decide_orphan(attempt, snapshot, is_dead=is_root_worker)

    assert orphan == replace(ATTEMPT, poll_count=7, scheduled_time=5)


@pytest.mark.parametrize(
    ("attempt", "snapshot"),
    [
        pytest.param(
            replace(ATTEMPT, worker_id=None),
            replace(CURRENT, worker_id=WorkerId("of another host")),
            id="a forged marker names no worker, and a living one holds the task",
        ),
        pytest.param(ATTEMPT, replace(CURRENT, worker_id=None), id="nobody knows who holds it"),
        pytest.param(replace(ATTEMPT, retry_count=0), CURRENT, id="an earlier retry"),
        pytest.param(
            ATTEMPT, replace(CURRENT, status=AttemptStatus.COMPLETED), id="it is over already"
        ),
        pytest.param(ATTEMPT, replace(CURRENT, poll_count=2), id="it was delivered again"),
    ],
)
def test_what_is_not_held_by_a_dead_worker_is_no_orphan(
    attempt: Attempt, snapshot: AttemptSnapshot
) -> None:
    assert decide_orphan(attempt, snapshot, is_dead=is_root_worker) is None

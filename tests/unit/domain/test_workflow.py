"""What an orchestrator knows of a workflow."""

from datetime import UTC, datetime, timedelta

import pytest

from perago.domain.attempt import Attempt, AttemptStatus
from perago.domain.ids import TaskId, WorkflowId
from perago.domain.workflow import TaskState, WorkflowStatus

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def test_open_and_terminal_statuses() -> None:
    assert {status for status in WorkflowStatus if not status.is_terminal} == {
        WorkflowStatus.RUNNING,
        WorkflowStatus.PAUSED,
    }


@pytest.mark.parametrize(
    ("started_at", "ended_at", "seconds"),
    [
        (BEGIN, BEGIN + timedelta(seconds=90), 90.0),
        (BEGIN, None, None),
        (None, BEGIN, None),
    ],
)
def test_a_task_took_time_once_it_began_and_is_over(
    started_at: datetime | None, ended_at: datetime | None, seconds: float | None
) -> None:
    attempt = Attempt(
        workflow_id=WorkflowId("w"), task_id=TaskId("t"), task_name="task", reference_name="ref"
    )
    state = TaskState(
        attempt=attempt,
        task_type="SIMPLE",
        status=AttemptStatus.COMPLETED,
        input={},
        output={},
        started_at=started_at,
        ended_at=ended_at,
    )
    assert state.seconds == seconds

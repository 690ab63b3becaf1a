"""What a body is told, and what it tells."""

import logging

import pytest

from perago import TaskContext
from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId, TaskId, WorkflowId

Told = list[tuple[str, float | None]]


def context(told: Told, *, cancelled: bool = False) -> TaskContext:
    return TaskContext(
        attempt=Attempt(
            workflow_id=WorkflowId("w"),
            task_id=TaskId("t"),
            task_name="clean",
            reference_name="clean",
        ),
        execution_id=ExecutionId("0" * 32),
        workspace=None,
        logger=logging.getLogger("test"),
        on_progress=lambda message, fraction: told.append((message, fraction)),
        is_cancelled=lambda: cancelled,
    )


@pytest.mark.parametrize(
    ("given", "heard"),
    [(None, None), (0.25, 0.25), (1.0000001, 1.0), (-0.5, 0.0), (float("nan"), 0.0)],
)
def test_progress_is_passed_on_within_bounds(given: float | None, heard: float | None) -> None:
    told: Told = []
    context(told).progress("half way", given)
    assert told == [("half way", heard)]


@pytest.mark.parametrize("cancelled", [True, False])
def test_cancelled_asks_anew(cancelled: bool) -> None:
    assert context([], cancelled=cancelled).cancelled is cancelled

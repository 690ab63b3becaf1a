"""Runs, attempts and steps for tests of what shows them."""

from datetime import UTC, datetime, timedelta

from perago.domain.attempt import Attempt, AttemptStatus
from perago.domain.execution import Execution
from perago.domain.ids import ExecutionId, TaskId, WorkflowId
from perago.domain.outcome import JsonObject
from perago.domain.workflow import TaskState, WorkflowState, WorkflowStatus

RUN = WorkflowId("11111111-aaaa")
BEGAN = datetime(2030, 1, 1, 12, tzinfo=UTC)


def attempt(step: str = "clean", retry: int = 0, run: WorkflowId = RUN) -> Attempt:
    return Attempt(
        workflow_id=run,
        task_id=TaskId(f"{step}-{retry}"),
        task_name=step,
        reference_name=step,
        retry_count=retry,
    )


def execution(step: str = "clean", retry: int = 0, run: WorkflowId = RUN) -> Execution:
    return Execution(
        attempt=attempt(step, retry, run),
        execution_id=ExecutionId("0" * 32),
        input_ref=None,
        staging_branch=None,
    )


def state(
    step: str = "clean",
    status: AttemptStatus = AttemptStatus.COMPLETED,
    *,
    retry: int = 0,
    kind: str = "SIMPLE",
    reason: str | None = None,
    task_input: JsonObject | None = None,
    output: JsonObject | None = None,
) -> TaskState:
    return TaskState(
        attempt=attempt(step, retry),
        task_type=kind,
        status=status,
        input=task_input or {},
        output=output or {},
        reason=reason,
        started_at=BEGAN,
        ended_at=BEGAN + timedelta(seconds=3) if status.is_terminal else None,
    )


def run_of(
    *tasks: TaskState,
    status: WorkflowStatus = WorkflowStatus.RUNNING,
    run_input: JsonObject | None = None,
) -> WorkflowState:
    return WorkflowState(
        id=RUN,
        name="flights",
        version=2,
        status=status,
        input=run_input or {},
        output={},
        tasks=tasks,
        started_at=BEGAN,
        ended_at=BEGAN + timedelta(seconds=5) if status.is_terminal else None,
    )

"""An execution to log, count and trace about."""

from __future__ import annotations

from perago.domain.attempt import Attempt
from perago.domain.execution import Execution, execution_of
from perago.domain.ids import ExecutionId, TaskId, WorkflowId
from perago.domain.outcome import JsonObject
from perago.domain.workflow import PolledTask


def an_execution(
    task: str = "t-1", *, workflow: str = "wf-1", input_ref: str | None = "c0ffee"
) -> Execution:
    attempt = Attempt(
        workflow_id=WorkflowId(workflow),
        task_id=TaskId(task),
        task_name="clean",
        reference_name="clean_ref",
        retry_count=2,
    )
    task_input: JsonObject = {} if input_ref is None else {"workspace": {"ref": input_ref}}
    polled = PolledTask(attempt=attempt, input=task_input, lease_seconds=60)
    return execution_of(polled, ExecutionId("0123456789abcdef" * 2))

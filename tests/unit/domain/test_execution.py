from __future__ import annotations

from perago.domain.attempt import Attempt
from perago.domain.execution import execution_of
from perago.domain.ids import ExecutionId, TaskId, WorkflowId
from perago.domain.outcome import Direction, JsonObject, Phase, direction_of
from perago.domain.staging import parse_staging_name
from perago.domain.workflow import PolledTask

ID = ExecutionId("0123456789abcdef" * 2)


def polled(task_input: JsonObject) -> PolledTask:
    attempt = Attempt(
        workflow_id=WorkflowId("w"), task_id=TaskId("t"), task_name="n", reference_name="r"
    )
    return PolledTask(attempt=attempt, input=task_input, lease_seconds=60)


def test_an_execution_names_the_input_ref_and_its_staging_branch() -> None:
    execution = execution_of(polled({"workspace": {"ref": "abc"}}), ID)

    assert execution.input_ref == "abc"
    assert execution.staging_branch is not None
    name = parse_staging_name(execution.staging_branch)
    assert name is not None
    assert (name.task_id, name.execution_id) == ("t", ID)


def test_without_a_workspace_there_is_no_ref_and_no_branch() -> None:
    execution = execution_of(polled({"workspace": 7}), ID)

    assert execution.input_ref is None
    assert execution.staging_branch is None


def test_only_staging_sends() -> None:
    assert [phase for phase in Phase if direction_of(phase) is Direction.UP] == [Phase.STAGE]

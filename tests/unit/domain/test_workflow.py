"""What an orchestrator knows of a workflow."""

from perago.domain.workflow import WorkflowStatus


def test_open_and_terminal_statuses() -> None:
    assert {status for status in WorkflowStatus if not status.is_terminal} == {
        WorkflowStatus.RUNNING,
        WorkflowStatus.PAUSED,
    }

"""Nothing that is told to an orchestrator holds a secret."""

from __future__ import annotations

from perago.app.redacted_orchestrator import without_secrets
from perago.domain.ids import WorkerId
from perago.domain.outcome import Completed, Failed, JsonObject, Phase
from perago.domain.redaction import HIDDEN, Redactor
from perago.testing import FakeClock, MemoryOrchestrator

SECRET = "hunter2-hunter2"
TASK: JsonObject = {
    "name": "t",
    "retryCount": 1,
    "retryDelaySeconds": 0,
    "responseTimeoutSeconds": 60,
}
FLOW: JsonObject = {
    "name": "w",
    "version": 1,
    "schemaVersion": 2,
    "tasks": [{"name": "t", "taskReferenceName": "t", "type": "SIMPLE", "inputParameters": {}}],
}


def test_reasons_and_log_lines_hold_no_secret_and_outputs_are_kept() -> None:
    orchestrator = without_secrets(MemoryOrchestrator(FakeClock()), Redactor((SECRET,)))
    orchestrator.register_task(TASK)
    orchestrator.register_workflow(FLOW)
    run = orchestrator.start_workflow("w", workflow_input={})

    for outcome in (
        Failed(reason=f"ValueError: {SECRET}", phase=Phase.BODY),
        Completed(output={"result": {"said": SECRET}}),
    ):
        (polled,) = orchestrator.poll(["t"], worker_id=WorkerId("w"), count=1, wait_seconds=0)
        orchestrator.append_log(polled.attempt.task_id, f"halfway, {SECRET}")
        (line,) = orchestrator.read_log(polled.attempt.task_id)
        assert line.text == f"halfway, {HIDDEN}"
        assert orchestrator.report(polled.attempt, outcome) is None

    failed, completed = orchestrator.workflow(run).tasks
    assert failed.reason == f"ValueError: {HIDDEN}"
    assert completed.output == {"result": {"said": SECRET}}, "the body's own"


def test_a_run_is_ended_with_a_reason_without_secrets() -> None:
    orchestrator = without_secrets(MemoryOrchestrator(FakeClock()), Redactor((SECRET,)))
    orchestrator.register_task(TASK)
    orchestrator.register_workflow(FLOW)
    run = orchestrator.start_workflow("w", workflow_input={})

    orchestrator.terminate(run, f"because of {SECRET}")

    assert orchestrator.workflow(run).reason == f"because of {HIDDEN}"

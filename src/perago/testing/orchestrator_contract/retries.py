"""What follows a failure."""

from __future__ import annotations

import pytest

from perago.domain.attempt import AttemptStatus
from perago.domain.outcome import JsonValue
from perago.domain.workflow import WorkflowStatus
from perago.testing.orchestrator_contract.bench import (
    FAILURE,
    TERMINAL_FAILURE,
    OrchestratorBench,
)


class RetryContract:
    """Retries, delays, and their end."""

    def test_a_failure_is_retried_as_a_new_attempt(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start_one(retryCount=2)
        first = bench.take().attempt
        bench.orchestrator.report(first, FAILURE)
        second = bench.take().attempt
        assert second.task_id != first.task_id
        assert (second.retry_count, second.seq) == (first.retry_count + 1, first.seq + 1)
        assert second.logical_task == first.logical_task
        assert bench.status(first) is AttemptStatus.FAILED
        assert bench.workflow(workflow_id).status is WorkflowStatus.RUNNING

    def test_a_retry_has_the_same_input(self, bench: OrchestratorBench) -> None:
        bench.register_task("task", retryCount=1)
        step = bench.step("only", inputParameters={"x": "${workflow.input.x}"})
        bench.start(step, workflow_input={"x": {"deep": [1]}})
        first = bench.take()
        bench.orchestrator.report(first.attempt, FAILURE)
        assert bench.take().input == first.input == {"x": {"deep": [1]}}

    def test_a_retry_waits_for_its_delay(self, bench: OrchestratorBench) -> None:
        bench.start_one(retryCount=1, retryDelaySeconds=3)
        bench.orchestrator.report(bench.take().attempt, FAILURE)
        bench.advance(1)
        assert bench.poll() == []
        bench.advance(2.5)
        assert bench.take().attempt.retry_count == 1

    @pytest.mark.parametrize(
        ("fields", "delays"),
        [
            ({"retryLogic": "FIXED"}, [2, 2]),
            ({"retryLogic": "LINEAR_BACKOFF", "backoffScaleFactor": 2}, [4, 8]),
            ({"retryLogic": "EXPONENTIAL_BACKOFF"}, [2, 4]),
        ],
        ids=["fixed", "linear", "exponential"],
    )
    def test_delays_grow_as_the_definition_says(
        self, bench: OrchestratorBench, fields: dict[str, JsonValue], delays: list[int]
    ) -> None:
        bench.register_task("task", retryCount=2, retryDelaySeconds=2, **fields)
        bench.start(bench.step("only"))
        for delay in delays:
            bench.orchestrator.report(bench.take().attempt, FAILURE)
            bench.advance(delay - 1)
            assert bench.poll() == []
            bench.advance(1)

    def test_exhausted_retries_fail_the_workflow(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start_one(retryCount=1)
        for _ in range(2):
            bench.orchestrator.report(bench.take().attempt, FAILURE)
        bench.eventually(lambda: bench.workflow(workflow_id).status is WorkflowStatus.FAILED)
        state = bench.workflow(workflow_id)
        assert [task.attempt.retry_count for task in state.tasks] == [0, 1]
        assert {task.status for task in state.tasks} == {AttemptStatus.FAILED}
        assert FAILURE.reason in (state.reason or "")
        assert state.ended_at is not None
        assert bench.poll() == []

    def test_exhausted_time_outs_time_the_workflow_out(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start_one(retryCount=0)
        bench.lose_lease(bench.take().attempt)
        bench.eventually(lambda: bench.workflow(workflow_id).status is WorkflowStatus.TIMED_OUT)

    def test_a_terminal_failure_is_not_retried(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start_one(retryCount=5)
        attempt = bench.take().attempt
        bench.orchestrator.report(attempt, TERMINAL_FAILURE)
        bench.eventually(lambda: bench.workflow(workflow_id).status is WorkflowStatus.FAILED)
        assert bench.status(attempt) is AttemptStatus.FAILED_WITH_TERMINAL_ERROR
        assert len(bench.attempts(workflow_id)) == 1
        assert bench.poll() == []

    def test_a_failure_has_a_reason_and_no_output(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start_one()
        bench.orchestrator.report(bench.take().attempt, FAILURE)
        (task,) = bench.attempts(workflow_id)
        assert task.reason == FAILURE.reason
        assert task.output == {}
        assert task.ended_at is not None

    def test_an_optional_task_may_fail(self, bench: OrchestratorBench) -> None:
        bench.register_task("task")
        workflow_id = bench.start(bench.step("first", optional=True), bench.step("second"))
        bench.orchestrator.report(bench.take().attempt, TERMINAL_FAILURE)
        assert bench.run().attempt.reference_name == "second"
        bench.eventually(lambda: bench.workflow(workflow_id).status is WorkflowStatus.COMPLETED)
        (first,) = bench.attempts(workflow_id, "first")
        assert first.status is AttemptStatus.COMPLETED_WITH_ERRORS

    def test_a_step_can_have_a_retry_count_of_its_own(self, bench: OrchestratorBench) -> None:
        bench.register_task("task", retryCount=0)
        bench.start(bench.step("only", retryCount=1))
        bench.orchestrator.report(bench.take().attempt, FAILURE)
        assert bench.take().attempt.retry_count == 1

"""How long an attempt is counted on, and what becomes of those who come too late."""

from __future__ import annotations

from perago.domain.attempt import AttemptStatus, decide_staleness
from perago.domain.outcome import Completed
from perago.domain.workflow import WorkflowStatus
from perago.testing.orchestrator_contract.bench import FAILURE, OrchestratorBench


class LeaseContract:
    """Leases, heartbeats, time-outs, and stale words."""

    def test_without_a_heartbeat_the_attempt_times_out_and_is_retried_as_a_new_one(
        self, bench: OrchestratorBench
    ) -> None:
        workflow_id = bench.start_one(retryCount=1)
        lost = bench.take().attempt
        bench.lose_lease(lost)
        retry = bench.take().attempt
        assert retry.task_id != lost.task_id
        assert retry.retry_count == lost.retry_count + 1
        assert retry.seq == lost.seq + 1
        assert retry.logical_task == lost.logical_task
        assert retry.poll_count == 1
        assert [task.status for task in bench.attempts(workflow_id)] == [
            AttemptStatus.TIMED_OUT,
            AttemptStatus.IN_PROGRESS,
        ]

    def test_the_lease_holds_until_its_end(self, bench: OrchestratorBench) -> None:
        bench.start_one()
        attempt = bench.take().attempt
        bench.advance(bench.lease_seconds * 0.6)
        assert bench.status(attempt) is AttemptStatus.IN_PROGRESS

    def test_a_heartbeat_starts_the_lease_anew(self, bench: OrchestratorBench) -> None:
        bench.start_one()
        attempt = bench.take().attempt
        for _ in range(4):
            bench.advance(bench.lease_seconds * 0.6)
            bench.orchestrator.heartbeat(attempt)
            assert decide_staleness(attempt, bench.snapshot(attempt)) is None
        bench.lose_lease(attempt)

    def test_heartbeats_do_not_extend_the_overall_time_out(self, bench: OrchestratorBench) -> None:
        bench.start_one(timeoutSeconds=bench.lease_seconds * 2, retryCount=1)
        attempt = bench.take().attempt
        for _ in range(4):
            bench.advance(bench.lease_seconds * 0.5)
            bench.orchestrator.heartbeat(attempt)

        def is_out_although_it_beats() -> bool:
            bench.orchestrator.heartbeat(attempt)
            return bench.status(attempt) is AttemptStatus.TIMED_OUT

        bench.eventually(is_out_although_it_beats)
        assert bench.take().attempt.retry_count == 1

    def test_an_overall_time_out_can_end_the_workflow(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start_one(
            timeoutSeconds=bench.lease_seconds, timeoutPolicy="TIME_OUT_WF", retryCount=3
        )
        attempt = bench.take().attempt
        bench.advance(bench.lease_seconds * 0.6)
        bench.orchestrator.heartbeat(attempt)
        bench.advance(bench.lease_seconds * 0.6)
        bench.eventually(lambda: bench.workflow(workflow_id).status is WorkflowStatus.TIMED_OUT)
        assert [task.status for task in bench.attempts(workflow_id)] == [AttemptStatus.TIMED_OUT]

    def test_a_stale_heartbeat_is_answered_and_ignored(self, bench: OrchestratorBench) -> None:
        bench.start_one(retryCount=1)
        lost = bench.take().attempt
        bench.lose_lease(lost)
        bench.orchestrator.heartbeat(lost)
        assert bench.status(lost) is AttemptStatus.TIMED_OUT
        assert bench.take().attempt.retry_count == 1

    def test_a_stale_heartbeat_does_not_keep_the_retry_alive(
        self, bench: OrchestratorBench
    ) -> None:
        bench.start_one(retryCount=1)
        lost = bench.take().attempt
        bench.lose_lease(lost)
        retry = bench.take().attempt
        bench.advance(bench.lease_seconds * 0.6)
        bench.orchestrator.heartbeat(lost)
        bench.advance(bench.lease_seconds * 0.6)
        bench.eventually(lambda: bench.status(retry) is AttemptStatus.TIMED_OUT)

    def test_a_stale_report_is_answered_and_ignored(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start_one(retryCount=1)
        lost = bench.take().attempt
        bench.lose_lease(lost)
        retry = bench.take().attempt
        bench.complete(lost, who="the lost one")
        assert bench.status(lost) is AttemptStatus.TIMED_OUT
        assert bench.status(retry) is AttemptStatus.IN_PROGRESS
        assert bench.workflow(workflow_id).status is WorkflowStatus.RUNNING
        bench.complete(retry, who="the retry")
        bench.eventually(lambda: bench.workflow(workflow_id).status is WorkflowStatus.COMPLETED)
        assert bench.attempts(workflow_id)[-1].output == {"who": "the retry"}

    def test_a_stale_failure_does_not_fail_the_retry(self, bench: OrchestratorBench) -> None:
        bench.start_one(retryCount=1)
        lost = bench.take().attempt
        bench.lose_lease(lost)
        retry = bench.take().attempt
        bench.orchestrator.report(lost, FAILURE)
        assert bench.status(retry) is AttemptStatus.IN_PROGRESS

    def test_a_second_report_is_ignored(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start_one()
        attempt = bench.take().attempt
        bench.complete(attempt, number=1)
        bench.complete(attempt, number=2)
        bench.orchestrator.report(attempt, FAILURE)
        assert bench.status(attempt) is AttemptStatus.COMPLETED
        assert bench.attempts(workflow_id)[0].output == {"number": 1}
        assert bench.workflow(workflow_id).status is WorkflowStatus.COMPLETED

    def test_a_report_goes_through_any_client(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start_one()
        bench.second.report(bench.take().attempt, Completed(output={}))
        bench.eventually(lambda: bench.workflow(workflow_id).status is WorkflowStatus.COMPLETED)

"""How an attempt that was polled, but not begun, goes to another worker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perago.domain.attempt import AttemptStatus, decide_staleness
from perago.domain.errors import NotFoundInOrchestratorError
from perago.domain.ids import TaskId, WorkerId
from perago.domain.workflow import PolledTask, WorkflowStatus
from perago.testing.orchestrator_contract.bench import OrchestratorBench

OTHER = WorkerId("worker-2")


class HandBackContract:
    """`hand_back`, and who may have the attempt then."""

    def test_an_attempt_that_is_handed_back_goes_to_whoever_polls_next(
        self, bench: OrchestratorBench
    ) -> None:
        workflow_id = bench.start_one(retryCount=1)
        given = bench.take()
        bench.orchestrator.hand_back(given.attempt)
        taken = _take_as_other(bench)
        assert taken.attempt.task_id == given.attempt.task_id
        assert (taken.attempt.worker_id, taken.attempt.poll_count) == (OTHER, 2)
        assert (taken.attempt.retry_count, taken.attempt.seq) == (0, given.attempt.seq)
        assert taken.input == given.input
        assert len(bench.attempts(workflow_id)) == 1
        assert bench.poll() == []

    def test_from_then_on_the_giver_is_stale(self, bench: OrchestratorBench) -> None:
        bench.start_one()
        given = bench.take().attempt
        bench.orchestrator.hand_back(given)
        assert bench.status(given) is AttemptStatus.SCHEDULED
        taken = _take_as_other(bench).attempt
        assert decide_staleness(given, bench.snapshot(given)) is not None
        assert decide_staleness(taken, bench.snapshot(taken)) is None

    def test_the_giver_may_take_it_again_as_another_execution(
        self, bench: OrchestratorBench
    ) -> None:
        bench.start_one()
        given = bench.take().attempt
        bench.orchestrator.hand_back(given)
        again = bench.take().attempt
        assert (again.task_id, again.worker_id) == (given.task_id, given.worker_id)
        assert decide_staleness(given, bench.snapshot(given)) is not None
        assert decide_staleness(again, bench.snapshot(again)) is None

    def test_it_has_no_lease_until_it_is_polled_again(self, bench: OrchestratorBench) -> None:
        bench.start_one()
        given = bench.take().attempt
        bench.orchestrator.hand_back(given)
        bench.advance(bench.lease_seconds * 2)
        bench.orchestrator.heartbeat(given)
        assert bench.status(given) is AttemptStatus.SCHEDULED
        taken = bench.take().attempt
        bench.advance(bench.lease_seconds * 0.6)
        assert bench.status(taken) is AttemptStatus.IN_PROGRESS

    def test_the_overall_time_out_runs_from_the_first_poll(self, bench: OrchestratorBench) -> None:
        bench.start_one(timeoutSeconds=bench.lease_seconds * 2, retryCount=1)
        given = bench.take().attempt
        bench.advance(bench.lease_seconds * 0.8)
        bench.orchestrator.hand_back(given)
        polled = bench.take()
        taken = polled.attempt
        assert taken.task_id == given.task_id
        assert polled.timeout_seconds is not None
        assert polled.timeout_seconds <= bench.lease_seconds * 1.3, "what is left of it is told"
        bench.advance(bench.lease_seconds * 0.7)
        bench.orchestrator.heartbeat(taken)
        bench.advance(bench.lease_seconds * 0.7)
        bench.eventually(lambda: bench.status(taken) is AttemptStatus.TIMED_OUT)

    def test_an_overall_time_that_only_alerts_is_no_bound(self, bench: OrchestratorBench) -> None:
        bench.start_one(timeoutSeconds=bench.lease_seconds * 2, timeoutPolicy="ALERT_ONLY")
        assert bench.take().timeout_seconds is None

    def test_a_stale_giver_takes_nothing_from_the_new_holder(
        self, bench: OrchestratorBench
    ) -> None:
        bench.start_one()
        given = bench.take().attempt
        bench.orchestrator.hand_back(given)
        taken = _take_as_other(bench).attempt
        bench.orchestrator.hand_back(given)
        assert decide_staleness(taken, bench.snapshot(taken)) is None
        assert bench.poll() == []

    def test_what_is_over_cannot_be_handed_back(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start_one()
        attempt = bench.run(rows=1).attempt
        bench.orchestrator.hand_back(attempt)
        assert bench.status(attempt) is AttemptStatus.COMPLETED
        assert bench.poll() == []
        bench.eventually(lambda: bench.workflow(workflow_id).status is WorkflowStatus.COMPLETED)

    def test_an_unknown_attempt_cannot_be_handed_back(self, bench: OrchestratorBench) -> None:
        bench.start_one()
        known = bench.take().attempt
        unknown = TaskId("00000000-0000-0000-0000-000000000000")
        with pytest.raises(NotFoundInOrchestratorError):
            bench.orchestrator.hand_back(replace(known, task_id=unknown))


def _take_as_other(bench: OrchestratorBench) -> PolledTask:
    (taken,) = bench.second.poll(
        [bench.name("task")], worker_id=OTHER, count=1, wait_seconds=bench.lease_seconds
    )
    return taken

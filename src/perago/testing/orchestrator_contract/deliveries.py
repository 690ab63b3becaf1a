"""How one delivery of a task id is told from another, and whose report counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perago.domain.attempt import Attempt, AttemptStatus, decide_staleness
from perago.domain.errors import NotFoundInOrchestratorError
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.outcome import Completed, Outcome
from perago.domain.workflow import WorkflowStatus
from perago.testing.orchestrator_contract.bench import (
    FAILURE,
    TERMINAL_FAILURE,
    OrchestratorBench,
)

UNKNOWN = "00000000-0000-0000-0000-000000000000"
ANY_END = pytest.mark.parametrize(
    "outcome",
    [Completed(output={"who": "the giver"}), FAILURE, TERMINAL_FAILURE],
    ids=["completed", "failed", "terminal"],
)


class DeliveryContract:
    """The identity of a delivery, and the fence before every report."""

    def test_a_delivery_carries_when_its_task_id_was_scheduled(
        self, bench: OrchestratorBench
    ) -> None:
        workflow_id = bench.start_one()
        attempt = bench.take().attempt
        (task,) = bench.attempts(workflow_id)
        assert attempt.scheduled_time is not None
        assert task.scheduled_at is not None
        assert attempt.scheduled_time == int(task.scheduled_at.timestamp() * 1000)
        assert bench.snapshot(attempt).scheduled_time == attempt.scheduled_time
        assert task.attempt.scheduled_time == attempt.scheduled_time

    def test_a_retry_names_the_attempt_that_it_retries(self, bench: OrchestratorBench) -> None:
        workflow_id = bench.start_one(retryCount=2)
        chain = []
        for _ in range(3):
            chain.append(bench.take().attempt)
            bench.advance(0.01)
            bench.orchestrator.report(chain[-1], FAILURE)
        assert [attempt.retried_task_id for attempt in chain] == [
            None,
            chain[0].task_id,
            chain[1].task_id,
        ]
        times = [attempt.scheduled_time or 0 for attempt in chain]
        assert times == sorted(set(times)), "each attempt is scheduled at a time of its own"
        recorded = [task.attempt.retried_task_id for task in bench.attempts(workflow_id)]
        assert recorded == [attempt.retried_task_id for attempt in chain]

    def test_a_failed_attempt_is_known_to_be_retried(self, bench: OrchestratorBench) -> None:
        bench.start_one(retryCount=1)
        first = bench.take().attempt
        assert not bench.snapshot(first).is_retried
        bench.orchestrator.report(first, FAILURE)
        retry = bench.take().attempt
        assert bench.snapshot(first).is_retried
        assert not bench.snapshot(retry).is_retried

    def test_a_hand_back_keeps_the_schedule(self, bench: OrchestratorBench) -> None:
        bench.start_one()
        given = bench.take().attempt
        bench.advance(0.01)
        bench.orchestrator.hand_back(given)
        again = _take_as_other(bench)
        assert again.scheduled_time == given.scheduled_time
        assert again.retried_task_id is None

    def test_an_instance_that_nobody_started_as_a_part_is_its_own_root(
        self, bench: OrchestratorBench
    ) -> None:
        workflow_id = bench.start_one()
        assert bench.orchestrator.find_root(workflow_id) == workflow_id
        assert bench.take().attempt.root_workflow_id in (None, workflow_id)
        with pytest.raises(NotFoundInOrchestratorError):
            bench.orchestrator.find_root(WorkflowId(UNKNOWN))

    @ANY_END
    def test_the_report_of_the_current_delivery_is_accepted(
        self, bench: OrchestratorBench, outcome: Outcome
    ) -> None:
        bench.start_one()
        attempt = bench.take().attempt
        assert bench.orchestrator.report(attempt, outcome) is None
        assert bench.status(attempt) is outcome.status

    @ANY_END
    def test_the_same_report_again_is_accepted(
        self, bench: OrchestratorBench, outcome: Outcome
    ) -> None:
        bench.start_one(retryCount=1)
        attempt = bench.take().attempt
        assert bench.orchestrator.report(attempt, outcome) is None
        assert bench.second.report(attempt, outcome) is None
        assert bench.status(attempt) is outcome.status

    def test_another_ending_than_the_reported_one_is_stale(self, bench: OrchestratorBench) -> None:
        bench.start_one()
        attempt = bench.run(number=1).attempt
        assert bench.orchestrator.report(attempt, FAILURE) is not None
        assert bench.status(attempt) is AttemptStatus.COMPLETED

    @ANY_END
    def test_the_report_of_a_lost_lease_is_told_to_be_stale(
        self, bench: OrchestratorBench, outcome: Outcome
    ) -> None:
        bench.start_one(retryCount=1)
        lost = bench.take().attempt
        bench.lose_lease(lost)
        retry = bench.take().attempt
        assert bench.orchestrator.report(lost, outcome) is not None
        assert bench.status(lost) is AttemptStatus.TIMED_OUT
        assert decide_staleness(retry, bench.snapshot(retry)) is None

    @ANY_END
    def test_the_report_of_what_was_handed_back_is_told_to_be_stale(
        self, bench: OrchestratorBench, outcome: Outcome
    ) -> None:
        bench.start_one(retryCount=1)
        given = bench.take().attempt
        bench.orchestrator.hand_back(given)
        assert bench.orchestrator.report(given, outcome) is not None
        assert bench.status(given) is AttemptStatus.SCHEDULED

    @ANY_END
    def test_a_report_does_not_end_what_another_worker_holds(
        self, bench: OrchestratorBench, outcome: Outcome
    ) -> None:
        workflow_id = bench.start_one(retryCount=1)
        given = bench.take().attempt
        bench.orchestrator.hand_back(given)
        holder = _take_as_other(bench)
        assert holder.task_id == given.task_id
        assert bench.orchestrator.report(given, outcome) is not None
        assert decide_staleness(holder, bench.snapshot(holder)) is None
        assert bench.second.report(holder, Completed(output={"who": "the holder"})) is None
        bench.eventually(lambda: bench.workflow(workflow_id).status is WorkflowStatus.COMPLETED)
        assert [task.output for task in bench.attempts(workflow_id)] == [{"who": "the holder"}]

    @ANY_END
    def test_a_report_does_not_end_the_same_task_id_scheduled_anew(
        self, bench: OrchestratorBench, outcome: Outcome
    ) -> None:
        bench.start_one(retryCount=1)
        attempt = bench.take().attempt
        assert attempt.scheduled_time is not None
        earlier = replace(attempt, scheduled_time=attempt.scheduled_time - 1)
        assert bench.orchestrator.report(earlier, outcome) is not None
        assert decide_staleness(attempt, bench.snapshot(attempt)) is None

    def test_the_report_of_a_cancelled_attempt_is_told_to_be_stale(
        self, bench: OrchestratorBench
    ) -> None:
        workflow_id = bench.start_one()
        attempt = bench.take().attempt
        bench.orchestrator.terminate(workflow_id, "no longer wanted")
        assert bench.orchestrator.report(attempt, FAILURE) is not None
        assert bench.status(attempt) is AttemptStatus.CANCELED

    def test_the_report_of_an_unknown_attempt_is_not_found(self, bench: OrchestratorBench) -> None:
        bench.start_one()
        known = bench.take().attempt
        for unknown in (
            replace(known, task_id=TaskId(UNKNOWN)),
            replace(known, task_id=TaskId(UNKNOWN), workflow_id=WorkflowId(UNKNOWN)),
        ):
            with pytest.raises(NotFoundInOrchestratorError):
                bench.orchestrator.report(unknown, FAILURE)


def _take_as_other(bench: OrchestratorBench) -> Attempt:
    (taken,) = bench.second.poll(
        [bench.name("task")],
        worker_id=WorkerId("worker-2"),
        count=1,
        wait_seconds=bench.lease_seconds,
    )
    return taken.attempt

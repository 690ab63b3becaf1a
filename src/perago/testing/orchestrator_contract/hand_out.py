"""How attempts are handed to workers."""

from __future__ import annotations

import threading

import pytest

from perago.domain.attempt import AttemptStatus
from perago.domain.errors import NotFoundInOrchestratorError
from perago.domain.ids import TaskId, WorkerId
from perago.domain.outcome import Completed
from perago.testing.orchestrator_contract.bench import FAILURE, WORKER, OrchestratorBench


class HandOutContract:
    """`poll`, and what it does to an attempt."""

    def test_nothing_to_do_is_an_empty_list(self, bench: OrchestratorBench) -> None:
        bench.register_task("task")
        assert bench.poll("task") == []

    def test_a_polled_task_carries_its_identity_its_input_and_its_limits(
        self, bench: OrchestratorBench
    ) -> None:
        bench.register_task("task", timeoutSeconds=1000, responseTimeoutSeconds=100)
        step = bench.step("only", inputParameters={"params": {"year": 2013}})
        workflow_id = bench.start(step)
        task = bench.take()
        assert task.input == {"params": {"year": 2013}}
        assert task.lease_seconds == 100
        # What is left of it: a server may take a moment between two looks at its clock.
        assert task.timeout_seconds is not None
        assert 990 < task.timeout_seconds <= 1000
        attempt = task.attempt
        assert attempt.workflow_id == workflow_id
        assert attempt.task_name == bench.name("task")
        assert attempt.reference_name == "only"
        assert (attempt.retry_count, attempt.seq, attempt.iteration) == (0, 1, 0)

    def test_no_overall_time_out_is_none(self, bench: OrchestratorBench) -> None:
        bench.start_one(timeoutSeconds=0)
        assert bench.take().timeout_seconds is None

    def test_the_attempt_is_then_in_progress_held_by_the_worker(
        self, bench: OrchestratorBench
    ) -> None:
        workflow_id = bench.start_one()
        (before,) = bench.attempts(workflow_id)
        assert before.status is AttemptStatus.SCHEDULED
        assert before.started_at is None
        attempt = bench.take().attempt
        assert attempt.task_id == before.attempt.task_id
        assert (attempt.worker_id, attempt.poll_count) == (WORKER, 1)
        snapshot = bench.snapshot(attempt)
        assert snapshot.status is AttemptStatus.IN_PROGRESS
        assert snapshot.workflow_id == workflow_id
        assert snapshot.task_id == attempt.task_id
        assert snapshot.retry_count == 0
        assert (snapshot.worker_id, snapshot.poll_count) == (WORKER, 1)

    def test_oldest_first(self, bench: OrchestratorBench) -> None:
        bench.register_task("task")
        name = bench.register_workflow("workflow", [bench.step("only")])
        started = []
        for _ in range(3):
            started.append(bench.orchestrator.start_workflow(name, workflow_input={}))
            bench.advance(0.01)
        taken = [bench.take().attempt.workflow_id for _ in started]
        assert taken == started

    def test_at_most_as_many_as_asked_for(self, bench: OrchestratorBench) -> None:
        bench.register_task("task")
        name = bench.register_workflow("workflow", [bench.step("only")])
        for _ in range(3):
            bench.orchestrator.start_workflow(name, workflow_input={})
        bench.eventually(lambda: len(bench.poll(count=1)) == 1)
        assert 1 <= len(bench.poll(count=10)) <= 2

    def test_only_tasks_that_were_asked_for(self, bench: OrchestratorBench) -> None:
        bench.start_one()
        bench.register_task("other")
        assert bench.poll("other") == []
        assert [task.attempt.task_name for task in bench.poll("other", "task")] == [
            bench.name("task")
        ]

    def test_polling_waits_for_the_first(self, bench: OrchestratorBench) -> None:
        bench.start_one(retryCount=1, retryDelaySeconds=1)
        failed = bench.take().attempt
        bench.orchestrator.report(failed, FAILURE)
        (retry,) = bench.poll(wait_seconds=bench.lease_seconds)
        assert retry.attempt.retry_count == 1

    def test_an_attempt_is_handed_out_once(self, bench: OrchestratorBench) -> None:
        bench.start_one()
        bench.take()
        assert bench.poll("task") == []
        assert (
            bench.second.poll(
                [bench.name("task")], worker_id=WorkerId("worker-2"), count=5, wait_seconds=0
            )
            == []
        )

    def test_an_attempt_is_handed_out_once_to_many_at_a_time(
        self, bench: OrchestratorBench
    ) -> None:
        bench.register_task("task", responseTimeoutSeconds=1000)
        name = bench.register_workflow("workflow", [bench.step("only")])
        for _ in range(12):
            bench.orchestrator.start_workflow(name, workflow_input={})
        taken = _poll_from_many_threads(bench, threads=6, until=12)
        assert len(taken) == 12
        assert len(set(taken)) == 12

    def test_a_snapshot_is_never_from_a_cache(self, bench: OrchestratorBench) -> None:
        bench.start_one()
        attempt = bench.take().attempt
        assert bench.status(attempt) is AttemptStatus.IN_PROGRESS
        bench.second.report(attempt, Completed(output={}))
        assert bench.status(attempt) is AttemptStatus.COMPLETED

    def test_an_unknown_task_id_is_not_found(self, bench: OrchestratorBench) -> None:
        with pytest.raises(NotFoundInOrchestratorError):
            bench.orchestrator.snapshot(TaskId("00000000-0000-0000-0000-000000000000"))


def _poll_from_many_threads(bench: OrchestratorBench, *, threads: int, until: int) -> list[TaskId]:
    """Poll both clients at once until that many attempts came, or nobody gets one any more."""
    taken: list[TaskId] = []
    barrier = threading.Barrier(threads)

    def work(number: int) -> None:
        client = bench.orchestrator if number % 2 else bench.second
        barrier.wait()
        misses = 0
        while len(taken) < until and misses < 20:
            tasks = client.poll(
                [bench.name("task")],
                worker_id=WorkerId(f"worker-{number}"),
                count=2,
                wait_seconds=0.1,
            )
            taken.extend(task.attempt.task_id for task in tasks)
            misses = 0 if tasks else misses + 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return taken

"""What is particular to the embedded adapter; the port's contract is in tests/contract."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.adapters.embedded.orchestrator import EmbeddedOrchestrator
from perago.adapters.embedded.orchestrator.engine_orchestrator import EngineOrchestrator
from perago.domain.attempt import AttemptStatus
from perago.domain.errors import (
    NotFoundInOrchestratorError,
    OrchestratorError,
)
from perago.domain.ids import TaskId
from perago.domain.outcome import Completed, JsonObject, JsonValue
from perago.domain.workflow import WorkflowStatus
from perago.testing.clock import FakeClock
from perago.testing.memory_orchestrator import MemoryOrchestrator
from tests.unit.adapters.embedded.orchestrator.flows import WORKER, poll, register, start


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def orchestrator(home: Path, clock: FakeClock) -> Iterator[EmbeddedOrchestrator]:
    with EmbeddedOrchestrator(home, clock) as opened:
        yield opened


class TestKeeping:
    def test_everything_is_there_after_opening_again(self, home: Path, clock: FakeClock) -> None:
        with EmbeddedOrchestrator(home, clock) as first:
            register(first, steps=2)
            workflow_id = start(first)
            (task,) = poll(first)
            first.append_log(task.attempt.task_id, "a line")
            before = first.workflow(workflow_id)
        with EmbeddedOrchestrator(home, clock) as second:
            assert second.workflow(workflow_id) == before
            assert [line.text for line in second.read_log(task.attempt.task_id)] == ["a line"]
            second.report(task.attempt, Completed(output={"näme": "ünïcode \u0000"}))
            assert second.workflow(workflow_id).tasks[0].output == {"näme": "ünïcode \u0000"}
            assert len(poll(second)) == 1

    def test_a_time_out_is_seen_by_whoever_looks_first(
        self, orchestrator: EmbeddedOrchestrator, clock: FakeClock
    ) -> None:
        register(orchestrator, responseTimeoutSeconds=10)
        ids = [start(orchestrator) for _ in range(3)]
        assert len(poll(orchestrator, count=3)) == 3
        clock.advance(10)
        states = orchestrator.workflows()
        assert [state.id for state in states] == ids[::-1]
        assert {state.status for state in states} == {WorkflowStatus.TIMED_OUT}

    def test_one_poll_wakes_every_instance_that_is_due(
        self, orchestrator: EmbeddedOrchestrator, clock: FakeClock
    ) -> None:
        register(orchestrator, responseTimeoutSeconds=10, retryCount=1)
        for _ in range(3):
            start(orchestrator)
        poll(orchestrator, count=3)
        clock.advance(10)
        retried = poll(orchestrator, count=5)
        assert [task.attempt.retry_count for task in retried] == [1, 1, 1]


class TestLimits:
    """On both adapters, since each counts in its own way."""

    @pytest.fixture(params=["embedded", "memory"])
    def orchestrator(
        self, request: pytest.FixtureRequest, home: Path, clock: FakeClock
    ) -> Iterator[EngineOrchestrator]:
        if request.param == "memory":
            yield MemoryOrchestrator(clock)
        else:
            with EmbeddedOrchestrator(home, clock) as opened:
                yield opened

    def test_no_more_run_at_once_than_the_limit(self, orchestrator: EngineOrchestrator) -> None:
        register(orchestrator, concurrentExecLimit=2)
        for _ in range(3):
            start(orchestrator)
        running = poll(orchestrator, count=5)
        assert len(running) == 2
        assert poll(orchestrator) == []
        orchestrator.report(running[0].attempt, Completed(output={}))
        assert len(poll(orchestrator, count=5)) == 1

    def test_no_more_start_in_a_window_than_the_rate(
        self, orchestrator: EngineOrchestrator, clock: FakeClock
    ) -> None:
        register(orchestrator, rateLimitPerFrequency=2, rateLimitFrequencyInSeconds=60)
        for _ in range(3):
            start(orchestrator)
        assert len(poll(orchestrator, count=5)) == 2
        clock.advance(59)
        assert poll(orchestrator) == []
        clock.advance(1)
        assert len(poll(orchestrator, count=5)) == 1

    def test_a_limited_task_does_not_hold_up_another(
        self, orchestrator: EngineOrchestrator
    ) -> None:
        register(orchestrator, concurrentExecLimit=1)
        for _ in range(2):
            start(orchestrator)
        orchestrator.register_task({"name": "free"})
        orchestrator.register_workflow(
            {"name": "free-flow", "tasks": [{"name": "free", "taskReferenceName": "a"}]}
        )
        orchestrator.start_workflow("free-flow", workflow_input={})
        taken = orchestrator.poll(["task", "free"], worker_id=WORKER, count=5, wait_seconds=0)
        assert [task.attempt.task_name for task in taken] == ["task", "free"]


class TestRefusals:
    def test_an_unregistered_task_is_named_at_start(
        self, orchestrator: EmbeddedOrchestrator
    ) -> None:
        task: JsonObject = {"name": "nobody-registered-me", "taskReferenceName": "a"}
        orchestrator.register_workflow({"name": "flow", "tasks": [task]})
        with pytest.raises(NotFoundInOrchestratorError, match="nobody-registered-me"):
            start(orchestrator)
        assert orchestrator.workflows() == []

    @pytest.mark.parametrize("value", [math.nan, math.inf, "\ud800", object()])
    def test_an_output_that_is_not_json_is_refused_and_changes_nothing(
        self, orchestrator: EmbeddedOrchestrator, value: JsonValue
    ) -> None:
        register(orchestrator)
        start(orchestrator)
        (task,) = poll(orchestrator)
        with pytest.raises(OrchestratorError, match="is not JSON"):
            orchestrator.report(task.attempt, Completed(output={"value": value}))
        status = orchestrator.snapshot(task.attempt.task_id).status
        assert status is AttemptStatus.IN_PROGRESS

    def test_the_log_of_an_unknown_task_is_not_found(
        self, orchestrator: EmbeddedOrchestrator
    ) -> None:
        with pytest.raises(NotFoundInOrchestratorError, match="unknown"):
            orchestrator.append_log(TaskId("unknown"), "a line")
        with pytest.raises(NotFoundInOrchestratorError, match="unknown"):
            orchestrator.read_log(TaskId("unknown"))

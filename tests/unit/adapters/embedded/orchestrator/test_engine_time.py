"""Time-outs when the machine's clock is set, and when the machine was started anew."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perago.adapters.embedded.orchestrator import EmbeddedOrchestrator
from perago.adapters.embedded.orchestrator.engine_orchestrator import EngineOrchestrator
from perago.domain.attempt import AttemptStatus, decide_staleness
from perago.domain.ids import WorkerId
from perago.domain.outcome import Completed, JsonObject
from perago.domain.workflow import PolledTask
from perago.testing.clock import FakeClock
from perago.testing.memory_orchestrator import MemoryOrchestrator

LEASE = 10
STEPS = pytest.mark.parametrize("step", [86_400, -86_400, 90, -90], ids=lambda one: f"{one:+} s")


class SettableClock(FakeClock):
    """A clock whose wall part can be set."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=UTC)) -> None:
        super().__init__(start)
        self._set_by = timedelta()

    def now(self) -> datetime:
        return super().now() + self._set_by

    def set_wall_clock(self, seconds: float) -> None:
        self._set_by += timedelta(seconds=seconds)


Open = Callable[[SettableClock], EngineOrchestrator]


@pytest.fixture(params=["memory", "embedded"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param == "memory":
        return MemoryOrchestrator
    return lambda clock: EmbeddedOrchestrator(tmp_path / "home", clock, boot="this")


def start(orchestrator: EngineOrchestrator, *, timeout: int = 0, **step: JsonObject) -> None:
    orchestrator.register_task(
        {
            "name": "task",
            "responseTimeoutSeconds": LEASE,
            "timeoutSeconds": timeout,
            "timeoutPolicy": "RETRY",
            "retryDelaySeconds": 0,
        }
    )
    task: JsonObject = {"name": "task", "taskReferenceName": "only", **step}
    orchestrator.register_workflow({"name": "w", "version": 1, "tasks": [task]})
    orchestrator.start_workflow("w", workflow_input={})


def poll(orchestrator: EngineOrchestrator) -> list[PolledTask]:
    return orchestrator.poll(["task"], worker_id=WorkerId("w"), count=1, wait_seconds=0)


@STEPS
def test_a_lease_ends_when_it_should_whatever_is_done_to_the_clock(
    opened: Open, step: float
) -> None:
    clock = SettableClock()
    orchestrator = opened(clock)
    start(orchestrator)
    (task,) = poll(orchestrator)
    clock.advance(LEASE * 0.5)
    clock.set_wall_clock(step)
    clock.advance(LEASE * 0.4)
    assert orchestrator.snapshot(task.attempt.task_id).status is AttemptStatus.IN_PROGRESS
    orchestrator.heartbeat(task.attempt)
    clock.set_wall_clock(-step / 2)
    clock.advance(LEASE * 0.9)
    found = orchestrator.snapshot(task.attempt.task_id)
    assert decide_staleness(task.attempt, found) is None, "the identity stays, too"
    clock.advance(LEASE * 0.2)
    assert orchestrator.snapshot(task.attempt.task_id).status is AttemptStatus.TIMED_OUT


@STEPS
def test_the_overall_time_and_a_retry_s_delay_run_on(opened: Open, step: float) -> None:
    clock = SettableClock()
    orchestrator = opened(clock)
    start(orchestrator, timeout=LEASE * 2)
    (task,) = poll(orchestrator)
    clock.advance(LEASE * 0.8)
    orchestrator.hand_back(task.attempt)
    clock.set_wall_clock(step)
    (again,) = poll(orchestrator)
    assert again.timeout_seconds == pytest.approx(LEASE * 1.2)
    clock.advance(LEASE * 0.9)
    orchestrator.heartbeat(again.attempt)
    clock.advance(LEASE * 0.4)
    assert orchestrator.snapshot(again.attempt.task_id).status is AttemptStatus.TIMED_OUT


@STEPS
def test_a_wait_of_some_length_is_as_long_as_it_says(opened: Open, step: float) -> None:
    clock = SettableClock()
    orchestrator = opened(clock)
    for reference, inputs in (
        ("long", {"duration": "100 seconds"}),
        ("until", {"until": "2030-01-01 00:02"}),
    ):
        wait: JsonObject = {
            "name": reference,
            "taskReferenceName": reference,
            "type": "WAIT",
            "inputParameters": {**inputs},
        }
        orchestrator.register_workflow({"name": reference, "version": 1, "tasks": [wait]})
    long = orchestrator.start_workflow("long", workflow_input={})
    until = orchestrator.start_workflow("until", workflow_input={})
    clock.set_wall_clock(step)
    clock.advance(99)
    assert not orchestrator.workflow(long).status.is_terminal
    clock.advance(2)
    assert orchestrator.workflow(long).status.is_terminal
    is_past = clock.now() >= datetime(2030, 1, 1, 0, 2, tzinfo=UTC)
    assert orchestrator.workflow(until).status.is_terminal is is_past


def test_what_people_read_follows_the_wall_clock(opened: Open) -> None:
    clock = SettableClock()
    orchestrator = opened(clock)
    start(orchestrator)
    clock.set_wall_clock(3600)
    (task,) = poll(orchestrator)
    orchestrator.append_log(task.attempt.task_id, "now")
    orchestrator.report(task.attempt, Completed(output={}))
    (line,) = orchestrator.read_log(task.attempt.task_id)
    state = orchestrator.workflow(task.attempt.workflow_id)
    assert line.at == state.ended_at == clock.now()
    assert state.started_at == clock.now(), "as long ago as before"


def test_a_small_difference_is_not_followed(opened: Open) -> None:
    clock = SettableClock()
    orchestrator = opened(clock)
    start(orchestrator)
    clock.set_wall_clock(0.9)
    (task,) = poll(orchestrator)
    (state,) = orchestrator.workflow(task.attempt.workflow_id).tasks
    assert state.started_at == clock.now() - timedelta(seconds=0.9)


def test_two_processes_move_what_is_open_once(tmp_path: Path) -> None:
    clock = SettableClock()
    with (
        EmbeddedOrchestrator(tmp_path / "home", clock, boot="this") as one,
        EmbeddedOrchestrator(tmp_path / "home", clock, boot="this") as other,
    ):
        start(one)
        (task,) = poll(other)
        clock.set_wall_clock(3600)
        clock.advance(LEASE * 0.9)
        for each in (one, other, one):
            assert each.snapshot(task.attempt.task_id).status is AttemptStatus.IN_PROGRESS
        clock.advance(LEASE * 0.2)
        for each in (other, one):
            assert each.snapshot(task.attempt.task_id).status is AttemptStatus.TIMED_OUT


def test_after_a_restart_of_the_machine_the_wall_clock_tells_how_long_it_was_off(
    tmp_path: Path,
) -> None:
    before = SettableClock()
    before.advance(1_000_000)
    with EmbeddedOrchestrator(tmp_path / "home", before, boot="first") as orchestrator:
        start(orchestrator)
        (task,) = poll(orchestrator)
    for off, status in ((LEASE * 0.5, AttemptStatus.IN_PROGRESS), (LEASE, AttemptStatus.TIMED_OUT)):
        after = SettableClock(before.now() + timedelta(seconds=off))
        with EmbeddedOrchestrator(tmp_path / "home", after, boot=f"{off}") as orchestrator:
            assert orchestrator.snapshot(task.attempt.task_id).status is status

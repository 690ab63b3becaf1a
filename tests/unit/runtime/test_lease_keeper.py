"""Beat, read back, give up: what the keeper does to one running attempt."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel

from perago import Pipeline, RetryPolicy, TaskControls, TimeoutPolicy, task
from perago.authoring import build_task_definition
from perago.domain.attempt import Attempt, AttemptSnapshot, AttemptStatus
from perago.domain.errors import OrchestratorUnavailableError
from perago.domain.ids import ExecutionId, TaskId, WorkerId
from perago.domain.outcome import Completed, Phase
from perago.runtime.calls import Calls
from perago.runtime.events import IgnoredEvents
from perago.runtime.executor import ExecutorKit
from perago.runtime.lease_keeper import LeaseKeeper
from perago.runtime.leases import start_lease
from perago.runtime.slot import Assignment, Slot
from perago.testing import FakeClock, MemoryOrchestrator
from tests.unit.runtime.inline_calls import HeldCalls, InlineCalls

LEASE, BEAT = 90.0, 5.0


class Params(BaseModel):
    """Nothing."""


class Result(BaseModel):
    """Nothing."""


@task(
    "step",
    owner_email="data@example.com",
    controls=TaskControls(
        retry=RetryPolicy(count=0), timeout=TimeoutPolicy(response_seconds=int(LEASE))
    ),
)
def step(params: Params) -> Result:
    return Result()


class SilentOrchestrator(MemoryOrchestrator):
    """One that can be told to stop answering."""

    is_silent = False

    def snapshot(self, task_id: TaskId) -> AttemptSnapshot:
        if self.is_silent:
            raise OrchestratorUnavailableError("no answer")
        return super().snapshot(task_id)


class Scene:
    """One attempt in one slot whose executor is imagined."""

    def __init__(self, timeout: float | None = None) -> None:
        self.clock = FakeClock()
        self.orchestrator = SilentOrchestrator(self.clock)
        self.notes: list[str] = []
        self.hear: Callable[[Slot], None] = lambda _: None
        self.keeper = self.make_keeper(InlineCalls())
        self.orchestrator.register_task(build_task_definition(step))
        self.orchestrator.register_workflow(Pipeline.of_task(step).workflow_definition())
        self.workflow = self.orchestrator.start_workflow(step.name, workflow_input={"params": {}})
        (polled,) = self.orchestrator.poll(
            [step.name], worker_id=WorkerId("w"), count=1, wait_seconds=0
        )
        self.assignment = Assignment(
            polled=polled,
            execution_id=ExecutionId("0" * 32),
            phase=Phase.BODY,
            lease=start_lease(
                polled_at=self.clock.elapsed(),
                lease_seconds=LEASE,
                heartbeat_seconds=BEAT,
                timeout_seconds=timeout,
            ),
        )
        self.slot = Slot(0, multiprocessing.get_context("spawn"), no_kit, Path("unused"))
        self.slot.assignment = self.assignment

    def make_keeper(self, calls: Calls) -> LeaseKeeper:
        return LeaseKeeper(
            self.orchestrator,
            self.clock,
            calls,
            events=IgnoredEvents(),
            hear=self._hear,
            note=lambda _attempt, text: self.notes.append(text),
        )

    def _hear(self, slot: Slot) -> None:
        self.hear(slot)

    @property
    def attempt(self) -> Attempt:
        return self.assignment.attempt

    def keep(self) -> None:
        self.keeper.keep(self.slot, self.assignment)

    def status(self) -> AttemptStatus:
        return self.orchestrator.workflow(self.workflow).tasks[0].status


def no_kit(number: int) -> ExecutorKit:
    raise AssertionError("no executor is started here")


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_beats_hold_a_lease_for_much_longer_than_it_is(scene: Scene) -> None:
    for _ in range(int(5 * LEASE / BEAT)):
        scene.clock.advance(BEAT)
        scene.keep()

    assert scene.assignment.cancelled_at is None
    assert scene.status() is AttemptStatus.IN_PROGRESS
    assert scene.assignment.lease.deadline == pytest.approx(scene.clock.elapsed() + LEASE)


def test_an_attempt_that_was_ended_elsewhere_is_given_up_at_the_next_beat(scene: Scene) -> None:
    scene.orchestrator.terminate(scene.workflow, "enough")
    scene.clock.advance(BEAT)
    scene.keep()

    assert scene.assignment.cancelled_at == scene.clock.elapsed()
    assert scene.notes == ["given up: its status is CANCELED, not IN_PROGRESS"]


def test_a_failed_beat_is_no_loss_and_a_whole_lease_of_them_is(scene: Scene) -> None:
    scene.orchestrator.is_silent = True
    scene.clock.advance(BEAT)
    scene.keep()
    assert scene.assignment.cancelled_at is None

    scene.clock.advance(LEASE)
    scene.keep()
    assert scene.assignment.cancelled_at is not None


def test_the_overall_time_ends_an_attempt_that_beats_well() -> None:
    scene = Scene(timeout=3 * BEAT)
    for _ in range(3):
        scene.clock.advance(BEAT)
        scene.keep()

    assert scene.assignment.cancelled_at is not None


def test_an_attempt_that_reported_in_this_very_moment_is_over_not_stale(scene: Scene) -> None:
    def hear(slot: Slot) -> None:
        assert slot.assignment is not None
        slot.assignment.phase = Phase.REPORT

    scene.hear = hear
    scene.orchestrator.report(scene.attempt, Completed(output={"result": {}}))
    scene.clock.advance(BEAT)
    scene.keep()

    assert scene.assignment.cancelled_at is None


def test_an_attempt_that_is_being_cleaned_up_needs_no_lease(scene: Scene) -> None:
    scene.assignment.phase = Phase.CLEANUP
    scene.clock.advance(10 * LEASE)
    scene.keep()

    assert scene.assignment.cancelled_at is None


def test_a_server_that_takes_its_time_is_asked_once_and_its_answer_counts(scene: Scene) -> None:
    calls = HeldCalls()
    scene.keeper = scene.make_keeper(calls)
    scene.clock.advance(BEAT)
    began = scene.clock.elapsed()
    scene.keep()
    scene.clock.advance(BEAT)
    scene.keep()
    assert len(calls.held) == 1

    calls.answer()
    assert scene.assignment.lease.deadline == pytest.approx(began + LEASE)
    scene.keep()
    assert len(calls.held) == 1


def test_a_lease_runs_out_though_a_beat_is_still_under_way(scene: Scene) -> None:
    calls = HeldCalls()
    scene.keeper = scene.make_keeper(calls)
    scene.clock.advance(BEAT)
    scene.keep()
    scene.clock.advance(LEASE)
    scene.keep()
    assert scene.assignment.cancelled_at is not None

    calls.answer()
    assert scene.assignment.cancelled_at is not None


def test_an_answer_for_an_attempt_that_has_ended_changes_nothing(scene: Scene) -> None:
    calls = HeldCalls()
    scene.keeper = scene.make_keeper(calls)
    scene.clock.advance(BEAT)
    scene.keep()
    scene.slot.assignment = None
    scene.orchestrator.terminate(scene.workflow, "enough")

    calls.answer()
    assert scene.assignment.cancelled_at is None
    assert scene.notes == []


def test_the_lease_is_kept_while_the_outcome_is_being_reported(scene: Scene) -> None:
    scene.assignment.phase = Phase.REPORT
    for _ in range(int(3 * LEASE / BEAT)):
        scene.clock.advance(BEAT)
        scene.keep()
    assert scene.status() is AttemptStatus.IN_PROGRESS


def test_what_is_being_reported_is_not_cancelled_whatever_the_lease_says(scene: Scene) -> None:
    scene.assignment.phase = Phase.REPORT
    scene.orchestrator.is_silent = True
    scene.clock.advance(BEAT)
    scene.keep()
    scene.clock.advance(2 * LEASE)
    scene.keep()
    assert scene.assignment.cancelled_at is None
    assert scene.assignment.lease_due is not None
    assert scene.assignment.lease_due > scene.clock.elapsed()


def test_a_beat_that_finds_the_report_has_arrived_changes_nothing(scene: Scene) -> None:
    scene.assignment.phase = Phase.REPORT
    scene.orchestrator.report(scene.attempt, Completed(output={"result": {}}))
    scene.clock.advance(BEAT)
    scene.keep()
    assert scene.assignment.cancelled_at is None
    assert scene.assignment.lease_due is not None
    assert scene.assignment.lease_due > scene.clock.elapsed()

"""When a death is reported: at once, unless a server may still carry out what was sent last."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from pydantic import BaseModel

from perago import Pipeline, RetryPolicy, TaskControls, task
from perago.adapters.localfs.directories import LocalAttemptDirectories
from perago.authoring import build_task_definition
from perago.domain.attempt import AttemptStatus
from perago.domain.ids import ExecutionId, WorkerId
from perago.domain.outcome import Completed, Phase
from perago.runtime.events import IgnoredEvents
from perago.runtime.executor import ExecutorKit
from perago.runtime.leases import start_lease
from perago.runtime.messages import (
    AttemptEnded,
    FromExecutor,
    PhaseStarted,
    Transferred,
    tell_supervisor,
)
from perago.runtime.options import SupervisorOptions
from perago.runtime.slot import Assignment
from perago.runtime.supervisor import Supervisor
from perago.testing import FakeClock, MemoryOrchestrator
from tests.unit.runtime.inline_calls import InlineCalls

MERGE_SECONDS = 60.0
PUBLISHING = PhaseStarted(phase=Phase.PUBLISH)


class Params(BaseModel):
    """Nothing."""


class Result(BaseModel):
    """Nothing."""


@task(
    "step",
    owner_email="data@example.com",
    controls=TaskControls(retry=RetryPolicy(count=3, delay_seconds=0)),
)
def step(params: Params) -> Result:
    return Result()


class Scene:
    """A supervisor with one attempt, whose executor says what a test has it say, and ends."""

    def __init__(self, root: Path, *, outlives: bool) -> None:
        self.clock = FakeClock()
        self.orchestrator = MemoryOrchestrator(self.clock)
        self.orchestrator.register_task(build_task_definition(step))
        self.orchestrator.register_workflow(Pipeline.of_task(step).workflow_definition())
        self.workflow = self.orchestrator.start_workflow(step.name, workflow_input={"params": {}})
        (polled,) = self.orchestrator.poll(
            [step.name], worker_id=WorkerId("w"), count=1, wait_seconds=0
        )
        self.supervisor = Supervisor(
            SupervisorOptions(
                worker_id=WorkerId("w"),
                executors=1,
                heartbeats={step.name: 10},
                merge_timeouts={step.name: MERGE_SECONDS},
                logs_directory=root,
                publish_may_outlive_executor=outlives,
                shutdown_grace_seconds=0,
            ),
            orchestrator=self.orchestrator,
            directories=LocalAttemptDirectories(root),
            clock=self.clock,
            factory=no_kit,
            make_calls=lambda _name, _threads: InlineCalls(),
            events=IgnoredEvents(),
        )
        self.slot = self.supervisor._slots[0]
        self.slot.assignment = Assignment(
            polled=polled,
            execution_id=ExecutionId("0" * 32),
            phase=Phase.STAGE,
            lease=start_lease(
                polled_at=self.clock.elapsed(),
                lease_seconds=600,
                heartbeat_seconds=10,
                timeout_seconds=None,
            ),
        )
        self.attempt = polled.attempt

    def executor_says(self, *messages: FromExecutor) -> None:
        """Have a process in the slot that wrote this and has ended."""
        context = multiprocessing.get_context("spawn")
        self.slot.connection, theirs = context.Pipe()
        _write(theirs, messages)
        self.slot.process = context.Process(target=print)
        self.slot.process.start()
        self.slot.process.join()

    def status(self) -> AttemptStatus:
        return self.orchestrator.snapshot(self.attempt.task_id).status

    def turn(self, *, after: float = 0.0) -> None:
        """What a turn of the loop does with the dead and with reports."""
        self.clock.advance(after)
        self.supervisor._hear(0)
        self.supervisor._reports.send_due()


def _write(theirs: Connection, messages: tuple[FromExecutor, ...]) -> None:
    for message in messages:
        tell_supervisor(theirs, message)
    theirs.close()


def no_kit(_number: int) -> ExecutorKit:
    raise AssertionError("no executor is started here")


@pytest.fixture
def soft(tmp_path: Path) -> Scene:
    return Scene(tmp_path, outlives=True)


@pytest.fixture
def atomic(tmp_path: Path) -> Scene:
    return Scene(tmp_path, outlives=False)


def test_a_death_before_publishing_is_reported_at_once(soft: Scene) -> None:
    soft.executor_says()
    soft.turn()
    assert soft.status() is AttemptStatus.FAILED


def test_a_death_while_publishing_to_a_server_is_reported_after_the_merge_time_out(
    soft: Scene,
) -> None:
    soft.executor_says(PUBLISHING)
    soft.turn()
    soft.turn(after=MERGE_SECONDS - 1)
    assert soft.status() is AttemptStatus.IN_PROGRESS
    soft.turn(after=1)
    assert soft.status() is AttemptStatus.FAILED


def test_a_store_that_dies_with_its_process_is_not_waited_for(atomic: Scene) -> None:
    atomic.executor_says(PUBLISHING)
    atomic.turn()
    assert atomic.status() is AttemptStatus.FAILED


def test_all_that_a_dead_executor_said_counts_however_much_it_was(soft: Scene) -> None:
    chatter = [Transferred(objects=1, size=1)] * 150
    soft.executor_says(*chatter, PUBLISHING)
    soft.turn()
    assert soft.status() is AttemptStatus.IN_PROGRESS


def test_a_stop_takes_what_the_executor_said_last_into_account(soft: Scene) -> None:
    soft.executor_says(PUBLISHING)
    soft.supervisor._abandon_all("stopped")
    soft.supervisor._reports.send_due()
    assert soft.status() is AttemptStatus.IN_PROGRESS


def test_a_stop_does_not_fail_what_had_ended(soft: Scene) -> None:
    soft.executor_says(AttemptEnded(outcome=Completed(output={}), is_reported=False))
    soft.supervisor._abandon_all("stopped")
    soft.supervisor._reports.send_due()
    assert soft.status() is AttemptStatus.COMPLETED


@pytest.mark.parametrize("outlives", [True, False])
def test_what_an_earlier_worker_held_is_failed_when_its_call_can_no_longer_land(
    tmp_path: Path, outlives: bool
) -> None:
    scene = Scene(tmp_path, outlives=outlives)
    scene.slot.assignment = None
    scene.supervisor.fail_for_dead_worker(scene.attempt)
    assert scene.supervisor.seconds_to_last_report == (MERGE_SECONDS if outlives else 0)

    scene.turn()
    assert (scene.status() is AttemptStatus.IN_PROGRESS) is outlives
    scene.turn(after=MERGE_SECONDS)
    assert scene.status() is AttemptStatus.FAILED


def test_a_stop_does_not_wait_for_what_is_left_to_the_lease(soft: Scene) -> None:
    soft.slot.assignment = None
    soft.supervisor.fail_for_dead_worker(soft.attempt)
    soft.supervisor.request_stop()

    soft.supervisor._tick()

    assert soft.supervisor._is_finished(lambda: False)
    assert soft.status() is AttemptStatus.IN_PROGRESS

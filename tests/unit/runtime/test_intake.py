"""Which slot gets what, what waits, and what is handed back."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from perago.domain.attempt import Attempt
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.outcome import Phase
from perago.domain.workflow import PolledTask
from perago.runtime.events import IgnoredEvents
from perago.runtime.executor import ExecutorKit
from perago.runtime.intake import Intake
from perago.runtime.options import SupervisorOptions
from perago.runtime.shared_lease import LEASE_LOST, AttemptCell, SharedLease
from perago.runtime.slot import Slot
from perago.testing import FakeClock, MemoryOrchestrator
from tests.unit.runtime.inline_calls import InlineCalls

LEASE = 60.0


class RecordingOrchestrator(MemoryOrchestrator):
    """Remembers what it was handed back."""

    def __init__(self) -> None:
        super().__init__(FakeClock())
        self.handed_back: list[str] = []

    def hand_back(self, attempt: Attempt) -> None:
        self.handed_back.append(f"{attempt.task_id}/{attempt.poll_count}")


class Scene:
    """An intake with ready slots whose executors are imagined."""

    def __init__(self, slots: int, *, max_attempts: int | None = None) -> None:
        self.orchestrator = RecordingOrchestrator()
        self.over: set[TaskId] = set()
        self.clock = FakeClock()
        context = multiprocessing.get_context("spawn")
        self.slots = [Slot(number, context, no_kit, Path("unused")) for number in range(slots)]
        for slot in self.slots:
            slot.is_ready = True
            slot.cell = AttemptCell(LEASE_LOST, 0)
        self.intake = Intake(
            self.slots,
            SupervisorOptions(
                worker_id=WorkerId("me"),
                executors=slots,
                heartbeats={"task": 5.0},
                merge_timeouts={"task": 60.0},
                logs_directory=Path("unused"),
                max_attempts=max_attempts,
            ),
            orchestrator=self.orchestrator,
            clock=self.clock,
            calls=InlineCalls(),
            events=IgnoredEvents(),
            is_over=self.over.__contains__,
        )

    def receive(self, *names: str, delivery: int = 1, at: float = 0.0) -> None:
        self.intake.receive([polled(name, delivery) for name in names], at)

    def running(self) -> list[str]:
        return [slot.assignment.attempt.task_id if slot.assignment else "" for slot in self.slots]

    def finish(self, number: int) -> None:
        """The attempt in a slot is being reported."""
        assignment = self.slots[number].assignment
        assert assignment is not None
        assignment.phase = Phase.REPORT

    def end(self, number: int) -> None:
        """The attempt in a slot has ended."""
        self.slots[number].assignment = None
        self.intake.fill()


def polled(name: str, delivery: int = 1, *, lease_seconds: float = LEASE) -> PolledTask:
    attempt = Attempt(
        workflow_id=WorkflowId("w"),
        task_id=TaskId(name),
        task_name="task",
        reference_name=name,
        worker_id=WorkerId("me"),
        poll_count=delivery,
    )
    return PolledTask(attempt=attempt, input={}, lease_seconds=lease_seconds)


def no_kit(_number: int) -> ExecutorKit:
    raise AssertionError("no executor is started here")


def test_what_finds_no_slot_is_handed_back() -> None:
    scene = Scene(2)
    scene.receive("a", "b", "c")
    assert scene.running() == ["a", "b"]
    assert scene.orchestrator.handed_back == ["c/1"]


def test_the_slot_that_was_used_last_comes_first() -> None:
    scene = Scene(3)
    scene.slots[1].last_used = 5.0
    scene.receive("a")
    assert scene.running() == ["", "a", ""]


def test_the_next_attempt_waits_for_one_that_is_reporting() -> None:
    scene = Scene(1)
    scene.receive("a")
    assert scene.intake.room == 0
    scene.finish(0)
    assert scene.intake.room == 1
    scene.receive("b")
    assert scene.intake.room == 0
    assert (scene.running(), scene.intake.waiting) == (["a"], {"task": 1})

    scene.end(0)
    assert scene.running() == ["b"]
    assert scene.orchestrator.handed_back == []


def test_what_waits_for_a_slot_that_is_lost_is_handed_back() -> None:
    scene = Scene(1)
    scene.receive("a")
    scene.finish(0)
    scene.receive("b")
    scene.slots[0].is_ready = False  # its executor died
    scene.end(0)
    assert scene.orchestrator.handed_back == ["b/1"]


def test_what_waits_too_long_is_handed_back() -> None:
    scene = Scene(1)
    scene.receive("a")
    scene.finish(0)
    received = scene.clock.elapsed()
    scene.receive("b", at=received - 4.0)  # a poll that waited at the server
    scene.intake.give_up_waiting(received + 5.0)
    assert scene.orchestrator.handed_back == []
    scene.intake.give_up_waiting(received + 5.1)
    assert scene.orchestrator.handed_back == ["b/1"]


def test_a_short_lease_is_not_spent_on_waiting() -> None:
    scene = Scene(1)
    scene.receive("a")
    scene.finish(0)
    now = scene.clock.elapsed()
    scene.intake.receive([polled("b", lease_seconds=8.0)], now)
    scene.intake.give_up_waiting(now + 2.0)
    assert scene.orchestrator.handed_back == []
    scene.intake.give_up_waiting(now + 2.1)
    assert scene.orchestrator.handed_back == ["b/1"]


def test_the_next_attempt_is_asked_for_while_a_brief_one_runs() -> None:
    scene = Scene(1)
    scene.receive("a")
    assert scene.intake.room == 0, "nobody knows how long it takes"

    scene.intake.learn("task", 0.002)
    scene.end(0)
    scene.receive("b")
    assert scene.intake.room == 1
    scene.receive("c")
    assert (scene.running(), scene.intake.room) == (["b"], 0)
    scene.end(0)
    assert scene.running() == ["c"]


def test_a_task_that_was_brief_once_is_not_taken_for_brief_for_ever() -> None:
    scene = Scene(1)
    scene.intake.learn("task", 0.002)
    scene.intake.learn("task", 1.0)
    scene.receive("a")
    assert scene.intake.room == 0


def test_a_closed_intake_hands_back_what_waits_and_what_comes() -> None:
    scene = Scene(2)
    scene.receive("a")
    scene.finish(0)
    scene.receive("b", "c")
    scene.intake.close()
    scene.receive("d")
    assert scene.running() == ["a", "b"]
    assert scene.orchestrator.handed_back == ["c/1", "d/1"]
    assert scene.intake.room == 0


def test_a_task_that_is_delivered_again_runs_once_under_its_new_delivery() -> None:
    scene = Scene(2)
    scene.receive("a")
    scene.receive("a", delivery=2)
    assert scene.running() == ["a", ""]
    assignment, cell = scene.slots[0].assignment, scene.slots[0].cell
    assert assignment is not None
    assert cell is not None
    assert assignment.attempt.poll_count == 2
    assert SharedLease(cell).poll_count == 2
    assert scene.orchestrator.handed_back == []


def test_a_task_that_was_given_up_is_not_taken_again_while_it_ends() -> None:
    scene = Scene(2)
    scene.receive("a")
    scene.slots[0].cancel(1.0)
    scene.receive("a", delivery=2)
    assert scene.running() == ["a", ""]
    assert scene.orchestrator.handed_back == ["a/2"]


def test_a_task_that_is_delivered_again_while_its_end_is_reported_does_not_run_again() -> None:
    scene = Scene(1)
    scene.over.add(TaskId("a"))

    scene.receive("a", "b", delivery=2)

    assert scene.running() == ["b"]
    assert scene.orchestrator.handed_back == []


def test_a_task_that_is_delivered_again_while_it_waits_begins_once() -> None:
    scene = Scene(1)
    scene.receive("a")
    scene.finish(0)
    scene.receive("b")
    scene.receive("b", delivery=2)
    scene.end(0)
    assignment = scene.slots[0].assignment
    assert assignment is not None
    assert (assignment.attempt.task_id, assignment.attempt.poll_count) == ("b", 2)
    assert scene.orchestrator.handed_back == []


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_is_taken_than_allowed(most: int) -> None:
    scene = Scene(2, max_attempts=most)
    assert scene.intake.room == most
    scene.receive(*"ab"[:most])
    assert scene.intake.has_had_enough
    scene.finish(0)
    assert scene.intake.room == 0

"""How many attempts are asked for, of which tasks, and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from perago.domain.attempt import Attempt
from perago.domain.errors import OrchestratorUnavailableError
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.workflow import PolledTask
from perago.runtime.dispatcher import Dispatcher, PollPlan
from perago.runtime.events import IgnoredEvents
from perago.testing import FakeClock, MemoryOrchestrator
from tests.unit.runtime.inline_calls import HeldCalls

NOTHING: Counter[str] = Counter()
_EPSILON = 1e-6
"""So that a pause is over in spite of rounding."""


class ScriptedOrchestrator(MemoryOrchestrator):
    """Answers polls with what a test lays down, and remembers them."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.is_down = False
        self.queued: dict[str, int] = {}
        self.asked: list[tuple[tuple[str, ...], int, float]] = []

    def poll(
        self, task_names: Sequence[str], *, worker_id: WorkerId, count: int, wait_seconds: float
    ) -> list[PolledTask]:
        self.asked.append((tuple(task_names), count, wait_seconds))
        if self.is_down:
            raise OrchestratorUnavailableError("no answer")
        found: list[PolledTask] = []
        for name in task_names:
            while self.queued.get(name, 0) and len(found) < count:
                self.queued[name] -= 1
                found.append(_polled(name, len(self.asked)))
        return found


def _polled(name: str, number: int) -> PolledTask:
    attempt = Attempt(
        workflow_id=WorkflowId("w"),
        task_id=TaskId(f"{name}-{number}"),
        task_name=name,
        reference_name=name,
    )
    return PolledTask(attempt=attempt, input={}, lease_seconds=60)


class Scene:
    """A dispatcher whose polls are answered when a test says so."""

    def __init__(
        self, *names: str, wait: float = 0.0, limits: dict[str, int] | None = None
    ) -> None:
        self.clock = FakeClock()
        self.orchestrator = ScriptedOrchestrator(self.clock)
        self.calls = HeldCalls()
        self.received: list[str] = []
        self.dispatcher = Dispatcher(
            PollPlan(task_names=names, wait_seconds=wait, limits=limits or {}),
            worker_id=WorkerId("me"),
            orchestrator=self.orchestrator,
            clock=self.clock,
            calls=self.calls,
            events=IgnoredEvents(),
            receive=lambda tasks, _: self.received.extend(t.attempt.task_name for t in tasks),
        )

    def ask(self, free: int, running: Counter[str] = NOTHING) -> None:
        self.dispatcher.ask(free, running)

    def turn(self, free: int, running: Counter[str] = NOTHING) -> None:
        """Ask, be answered, and let the pause pass."""
        self.ask(free, running)
        self.calls.answer()
        self.clock.advance(max(0.0, self.dispatcher.due - self.clock.elapsed()) + _EPSILON)


def test_nothing_is_asked_without_a_free_slot() -> None:
    scene = Scene("a")
    scene.ask(0)
    assert scene.calls.held == []


def test_one_batch_for_all_free_slots_and_no_second_while_it_is_open() -> None:
    scene = Scene("a", "b")
    scene.orchestrator.queued = {"a": 2, "b": 5}
    scene.ask(4)
    scene.ask(4)
    scene.calls.answer()
    assert scene.orchestrator.asked == [(("a", "b"), 4, 0.0)]
    assert scene.received == ["a", "a", "b", "b"]


def test_an_idle_worker_that_cannot_wait_at_the_server_asks_less_and_less_often() -> None:
    scene = Scene("a")
    pauses: list[float] = []
    for _ in range(30):
        before = scene.clock.elapsed()
        scene.turn(1)
        pauses.append(round(scene.clock.elapsed() - before, 4))
    assert pauses == sorted(pauses)
    assert pauses[-1] == pytest.approx(0.25, abs=1e-4)


def test_work_is_asked_for_again_at_once() -> None:
    scene = Scene("a")
    for _ in range(30):
        scene.turn(1)
    scene.orchestrator.queued = {"a": 1}
    scene.ask(1)
    scene.calls.answer()
    assert scene.dispatcher.due <= scene.clock.elapsed()


def test_an_idle_worker_leaves_one_poll_for_each_task_at_the_server() -> None:
    scene = Scene("a", "b", wait=2.0)
    scene.turn(4)
    scene.ask(4)
    scene.ask(4)
    assert len(scene.calls.held) == 2
    scene.calls.answer()
    assert scene.orchestrator.asked[1:] == [(("a",), 1, 2.0), (("b",), 1, 2.0)]


def test_polls_that_wait_at_the_server_hold_a_slot_each() -> None:
    scene = Scene("a", "b", wait=2.0)
    scene.turn(2)
    scene.ask(2)
    scene.dispatcher.ask_soon()
    scene.ask(2)
    assert len(scene.calls.held) == 2


def test_with_fewer_slots_than_tasks_no_queue_is_left_unwatched() -> None:
    scene = Scene("a", "b", wait=2.0)
    for _ in range(5):
        scene.turn(1)
    assert scene.orchestrator.asked == [(("a", "b"), 1, 0.0)] * 5


def test_a_burst_that_follows_a_waiting_poll_is_taken_in_one_batch() -> None:
    scene = Scene("a", wait=2.0)
    scene.turn(4)
    scene.ask(4)
    scene.orchestrator.queued = {"a": 4}
    scene.calls.answer()
    assert scene.received == ["a"]
    scene.turn(3)
    assert scene.orchestrator.asked[-1] == (("a",), 3, 0.0)
    assert scene.received == ["a"] * 4


def test_a_limited_task_never_gets_more_than_its_share() -> None:
    scene = Scene("heavy", "light", limits={"heavy": 1})
    scene.orchestrator.queued = {"heavy": 9, "light": 9}
    for _ in range(6):
        scene.turn(4, Counter(scene.received))
    assert scene.received.count("heavy") == 1
    assert scene.received.count("light") > 1


def test_a_limit_counts_what_is_asked_for_already() -> None:
    scene = Scene("heavy", wait=2.0, limits={"heavy": 1})
    scene.turn(4)
    scene.ask(4)
    scene.ask(4)
    assert len(scene.calls.held) == 1


def test_an_outage_is_met_with_patience_and_its_end_with_work() -> None:
    scene = Scene("a")
    scene.orchestrator.is_down = True
    pauses: list[float] = []
    for _ in range(12):
        before = scene.clock.elapsed()
        scene.turn(1)
        pauses.append(round(scene.clock.elapsed() - before, 4))
    assert pauses[0] <= 0.5
    assert 7.5 <= pauses[-1] <= 15
    assert scene.dispatcher.error == "no answer"

    scene.orchestrator.is_down = False
    scene.orchestrator.queued = {"a": 1}
    scene.turn(1)
    assert scene.received == ["a"]
    assert scene.dispatcher.error is None


def test_an_outage_is_not_hurried_by_what_happens_here() -> None:
    scene = Scene("a")
    scene.orchestrator.is_down = True
    scene.ask(1)
    scene.calls.answer()
    scene.dispatcher.ask_soon()
    scene.ask(1)
    assert scene.calls.held == []


def test_out_of_work_means_that_every_queue_was_looked_at() -> None:
    scene = Scene("a", "b", limits={"b": 1})
    scene.turn(1)
    assert not scene.dispatcher.found_nothing
    scene.turn(1)
    assert scene.dispatcher.found_nothing


def test_a_look_from_before_the_last_change_does_not_say_that_there_is_nothing() -> None:
    scene = Scene("a")
    scene.ask(1)
    scene.clock.advance(0.01)
    scene.dispatcher.ask_soon()  # a report was heard: its successor may be queued
    scene.calls.answer()
    assert not scene.dispatcher.found_nothing

    scene.clock.advance(1.0)
    scene.turn(1)
    assert scene.dispatcher.found_nothing


def test_tasks_at_their_limit_are_not_asked_for_again_at_once() -> None:
    scene = Scene("a", limits={"a": 1})
    scene.ask(1, Counter(a=1))
    assert scene.calls.held == []
    assert scene.dispatcher.due > scene.clock.elapsed(), "the loop would never rest"


def test_a_second_slot_is_asked_for_while_a_poll_for_the_first_is_open() -> None:
    scene = Scene("a")
    scene.orchestrator.queued = {"a": 2}
    scene.ask(1)
    scene.ask(2)
    scene.calls.answer()
    assert scene.orchestrator.asked == [(("a",), 1, 0.0), (("a",), 1, 0.0)]
    assert scene.received == ["a", "a"]


def test_polls_that_fail_side_by_side_are_one_failure() -> None:
    scene = Scene("a")
    scene.orchestrator.is_down = True
    for free in (1, 2, 3, 4):
        scene.ask(free)
    scene.clock.advance(0.1)
    scene.calls.answer()
    assert scene.dispatcher.due <= scene.clock.elapsed() + 1.0

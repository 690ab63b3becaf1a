"""How many attempts are asked for, of which tasks, and when."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from perago.domain.attempt import Attempt
from perago.domain.errors import OrchestratorUnavailableError
from perago.domain.events import Event, Polled, PollFailed
from perago.domain.ids import TaskId, WorkflowId
from perago.domain.workflow import PolledTask
from perago.runtime.polling import Poll, PollPlan, PollSchedule

NOTHING: Counter[str] = Counter()
SILENCE = OrchestratorUnavailableError("no answer")
_EPSILON = 1e-6
"""So that a pause is over in spite of rounding."""


def _polled(name: str, number: int) -> PolledTask:
    attempt = Attempt(
        workflow_id=WorkflowId("w"),
        task_id=TaskId(f"{name}-{number}"),
        task_name=name,
        reference_name=name,
    )
    return PolledTask(attempt=attempt, input={}, lease_seconds=60)


class Scene:
    """Polls that are answered, from what is queued, when a test says so."""

    def __init__(
        self, *names: str, wait: float = 0.0, limits: dict[str, int] | None = None
    ) -> None:
        self.now = 1000.0
        self.is_down = False
        self.queued: dict[str, int] = {}
        self.asked: list[tuple[tuple[str, ...], int, float]] = []
        self.held: list[Poll] = []
        self.received: list[str] = []
        self.events: list[Event] = []
        plan = PollPlan(task_names=names, wait_seconds=wait, limits=limits or {})
        self.schedule = PollSchedule(plan, Random(7))

    def ask(self, free: int, running: Counter[str] = NOTHING) -> None:
        polls = self.schedule.ask(free, running, self.now)
        self.held += polls
        self.asked += [(poll.names, poll.count, poll.wait_seconds) for poll in polls]

    def answer(self) -> None:
        """Answer everything that was asked so far."""
        held, self.held = self.held, []
        for poll in held:
            self.answer_one(poll)

    def answer_one(self, poll: Poll) -> None:
        answer = SILENCE if self.is_down else self._find(poll)
        tasks, event = self.schedule.take(poll, answer, self.now)
        self.received += [task.attempt.task_name for task in tasks]
        self.events.append(event)

    def _find(self, poll: Poll) -> list[PolledTask]:
        found: list[PolledTask] = []
        for name in poll.names:
            while self.queued.get(name, 0) and len(found) < poll.count:
                self.queued[name] -= 1
                found.append(_polled(name, len(self.asked)))
        return found

    def turn(self, free: int, running: Counter[str] = NOTHING) -> float:
        """Ask, be answered, and let the pause pass; say how long it was."""
        self.ask(free, running)
        self.answer()
        pause = max(0.0, self.schedule.due - self.now)
        self.now += pause + _EPSILON
        return pause


@pytest.mark.parametrize("free", [0, -1])
def test_nothing_is_asked_without_a_free_slot(free: int) -> None:
    scene = Scene("a")
    scene.ask(free)
    assert scene.held == []
    assert not scene.schedule.is_asking


def test_one_batch_for_all_free_slots_and_no_second_while_it_is_open() -> None:
    scene = Scene("a", "b")
    scene.queued = {"a": 2, "b": 5}
    scene.ask(4)
    assert scene.schedule.is_asking
    scene.ask(4)
    scene.answer()
    assert scene.asked == [(("a", "b"), 4, 0.0)]
    assert scene.received == ["a", "a", "b", "b"]
    assert scene.events == [Polled(tasks=4)]
    assert not scene.schedule.is_asking


def test_an_idle_worker_that_cannot_wait_at_the_server_asks_less_and_less_often() -> None:
    scene = Scene("a")
    pauses = [scene.turn(1) for _ in range(30)]
    assert pauses[:3] == pytest.approx([0.02, 0.03, 0.045])
    assert pauses == sorted(pauses)
    assert pauses[-1] == pytest.approx(0.25)


def test_an_idle_worker_that_cannot_wait_at_the_server_asks_for_all_its_slots_at_once() -> None:
    scene = Scene("a", "b")
    scene.turn(4)
    assert scene.schedule.found_nothing
    scene.ask(4)
    assert scene.asked == [(("a", "b"), 4, 0.0)] * 2


def test_a_worker_may_begin_when_its_clock_does() -> None:
    scene = Scene("a")
    scene.now = 0.0
    scene.ask(1)
    assert len(scene.held) == 1
    scene.answer()
    assert scene.schedule.found_nothing

    scene.schedule.ask_soon(scene.now)
    scene.ask(1)
    assert len(scene.held) == 1
    scene.queued = {"a": 1}
    scene.answer()
    scene.ask(1)
    assert len(scene.held) == 1

    scene = Scene("a")
    scene.now, scene.is_down = 0.0, True
    scene.turn(1)
    assert scene.turn(1) > 0.5, "the second failure"


def test_a_worker_that_was_idle_all_night_computes_its_pause_as_quickly() -> None:
    scene = Scene("a")
    scene.schedule._empty_in_a_row = 1_000_000
    assert scene.turn(1) == pytest.approx(0.25)


def test_nothing_is_asked_before_a_pause_is_over() -> None:
    scene = Scene("a")
    scene.ask(1)
    scene.answer()
    scene.ask(1)
    assert scene.held == []
    scene.now = scene.schedule.due
    scene.ask(1)
    assert len(scene.held) == 1


def test_work_is_asked_for_again_at_once() -> None:
    scene = Scene("a")
    for _ in range(30):
        scene.turn(1)
    scene.queued = {"a": 1}
    scene.ask(1)
    scene.answer()
    assert scene.schedule.due <= scene.now
    assert scene.turn(1) == pytest.approx(0.02), "and then as in the beginning"


def test_an_idle_worker_leaves_one_poll_for_each_task_at_the_server() -> None:
    scene = Scene("a", "b", wait=2.0)
    assert scene.turn(4) == 0.0, "the next one waits at the server"
    scene.ask(4)
    scene.ask(4)
    assert len(scene.held) == 2
    scene.answer()
    assert scene.asked[1:] == [(("a",), 1, 2.0), (("b",), 1, 2.0)]


def test_a_poll_that_waited_at_the_server_in_vain_is_followed_by_the_next() -> None:
    scene = Scene("a", wait=2.0)
    scene.turn(1)
    assert scene.turn(1) == 0.0
    assert scene.schedule.found_nothing
    scene.ask(1)
    assert scene.asked[1:] == [(("a",), 1, 2.0)] * 2


def test_a_poll_may_wait_at_the_server_for_less_than_a_second() -> None:
    scene = Scene("a", wait=0.5)
    scene.turn(1)
    scene.ask(1)
    assert scene.asked[1:] == [(("a",), 1, 0.5)]


def test_one_poll_of_several_that_wait_at_the_server_is_replaced_by_itself() -> None:
    scene = Scene("a", "b", wait=2.0)
    scene.turn(4)
    scene.ask(4)
    first = scene.held.pop(0)
    scene.answer_one(first)
    scene.ask(4)
    assert [poll.names for poll in scene.held] == [("b",), ("a",)]
    assert scene.schedule.oldest_poll_began_at == scene.now


def test_polls_that_wait_at_the_server_hold_a_slot_each() -> None:
    scene = Scene("a", "b", wait=2.0)
    scene.turn(2)
    scene.ask(2)
    scene.schedule.ask_soon(scene.now)
    scene.ask(2)
    assert len(scene.held) == 2


def test_as_many_slots_as_tasks_are_enough_to_wait_at_the_server() -> None:
    scene = Scene("a", "b", wait=2.0)
    scene.turn(2)
    scene.ask(2)
    assert [poll.wait_seconds for poll in scene.held] == [2.0, 2.0]


def test_with_fewer_slots_than_tasks_no_queue_is_left_unwatched() -> None:
    scene = Scene("a", "b", wait=2.0)
    pauses = [scene.turn(1) for _ in range(5)]
    assert scene.asked == [(("a", "b"), 1, 0.0)] * 5
    assert pauses == pytest.approx([0.0, 0.03, 0.045, 0.0675, 0.10125])


def test_a_burst_that_follows_a_waiting_poll_is_taken_in_one_batch() -> None:
    scene = Scene("a", wait=2.0)
    scene.turn(4)
    scene.ask(4)
    scene.queued = {"a": 4}
    scene.answer()
    assert scene.received == ["a"]
    scene.turn(3)
    assert scene.asked[-1] == (("a",), 3, 0.0)
    assert scene.received == ["a"] * 4


def test_a_limited_task_never_gets_more_than_its_share() -> None:
    scene = Scene("heavy", "light", limits={"heavy": 1})
    scene.queued = {"heavy": 9, "light": 9}
    for _ in range(6):
        scene.turn(4, Counter(scene.received))
    assert scene.received.count("heavy") == 1
    assert scene.received.count("light") > 1


def test_a_limited_task_gets_all_of_its_share() -> None:
    scene = Scene("heavy", "light", limits={"heavy": 2})
    scene.queued = {"heavy": 9, "light": 9}
    for _ in range(6):
        scene.turn(4, Counter(scene.received))
    assert scene.received.count("heavy") == 2
    assert (("heavy",), 2, 0.0) in scene.asked


def test_limited_tasks_and_the_others_take_turns() -> None:
    scene = Scene("a", "b", "c", limits={"b": 1, "c": 1})
    for _ in range(4):
        scene.turn(1)
    assert [names for names, _, _ in scene.asked] == [("a",), ("b",), ("c",), ("a",)]


def test_a_limit_counts_what_is_asked_for_already() -> None:
    scene = Scene("heavy", wait=2.0, limits={"heavy": 1})
    scene.turn(4)
    scene.ask(4)
    scene.ask(4)
    assert len(scene.held) == 1


def test_a_limit_leaves_room_for_those_that_have_none() -> None:
    scene = Scene("heavy", limits={"heavy": 3})
    scene.ask(2)
    assert scene.asked == [(("heavy",), 2, 0.0)]
    scene.ask(5)
    assert scene.asked[1:] == [(("heavy",), 1, 0.0)]


def test_an_outage_is_met_with_patience_and_its_end_with_work(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene("a")
    scene.is_down = True
    pauses = [scene.turn(1) for _ in range(12)]
    assert 0.25 <= pauses[0] <= 0.5
    assert 0.5 <= pauses[1] <= 1.0
    assert 7.5 <= pauses[-1] <= 15
    assert (scene.schedule.error, scene.schedule.answered_at) == ("no answer", None)
    assert scene.events == [PollFailed(reason="no answer")] * 12
    # Said at the first failure, and once a minute of the hundred seconds or so.
    assert caplog.text.count("cannot poll, trying again: no answer") == 2

    scene.is_down = False
    scene.queued = {"a": 1}
    caplog.set_level("INFO")
    before = scene.now
    scene.turn(1)
    assert scene.received == ["a"]
    assert (scene.schedule.error, scene.schedule.answered_at) == (None, before)
    assert caplog.text.count("the orchestrator answers again") == 1
    scene.turn(1)
    assert caplog.text.count("the orchestrator answers again") == 1


def test_every_outage_is_said_at_its_beginning(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene("a")
    for _ in range(2):
        scene.is_down = True
        scene.turn(1)
        scene.turn(1)
        scene.is_down = False
        scene.turn(1)
    assert caplog.text.count("cannot poll, trying again: no answer") == 2


def test_workers_do_not_come_back_in_the_same_moment() -> None:
    pauses = set()
    for seed in range(20):
        scene = Scene("a")
        scene.schedule._random = Random(seed)
        scene.is_down = True
        pauses.add(scene.turn(1))
    assert len(pauses) == 20


def test_an_outage_is_not_hurried_by_what_happens_here() -> None:
    scene = Scene("a")
    scene.is_down = True
    scene.ask(1)
    scene.answer()
    scene.schedule.ask_soon(scene.now)
    scene.ask(1)
    assert scene.held == []


def test_what_happens_here_hurries_an_idle_worker() -> None:
    scene = Scene("a")
    for _ in range(20):
        scene.turn(1)
    scene.ask(1)
    scene.answer()
    scene.schedule.ask_soon(scene.now)
    scene.ask(1)
    assert len(scene.held) == 1


def test_out_of_work_means_that_every_queue_was_looked_at() -> None:
    scene = Scene("a", "b", limits={"b": 1})
    scene.turn(1)
    assert not scene.schedule.found_nothing
    scene.turn(1)
    assert scene.schedule.found_nothing


def test_every_queue_of_a_worker_with_limited_tasks_alone_is_each_of_theirs() -> None:
    scene = Scene("a", "b", limits={"a": 1, "b": 1})
    scene.turn(1)
    assert not scene.schedule.found_nothing
    scene.turn(1)
    assert scene.schedule.found_nothing


def test_work_that_was_found_is_not_nothing() -> None:
    scene = Scene("a")
    scene.turn(1)
    assert scene.schedule.found_nothing
    scene.queued = {"a": 1}
    scene.turn(1)
    assert not scene.schedule.found_nothing


def test_a_look_from_before_the_last_change_does_not_say_that_there_is_nothing() -> None:
    scene = Scene("a")
    scene.ask(1)
    scene.now += 0.01
    scene.schedule.ask_soon(scene.now)  # a report was heard: its successor may be queued
    scene.answer()
    assert not scene.schedule.found_nothing

    scene.now += 1.0
    scene.turn(1)
    assert scene.schedule.found_nothing


def test_a_look_in_the_moment_of_the_last_change_counts() -> None:
    scene = Scene("a")
    scene.schedule.ask_soon(scene.now)
    scene.turn(1)
    assert scene.schedule.found_nothing


def test_tasks_at_their_limit_are_not_asked_for_again_at_once() -> None:
    scene = Scene("a", limits={"a": 1})
    scene.ask(1, Counter(a=1))
    assert scene.held == []
    assert scene.schedule.due == scene.now + 0.25, "the loop would never rest"


def test_a_second_slot_is_asked_for_while_a_poll_for_the_first_is_open() -> None:
    scene = Scene("a")
    scene.queued = {"a": 2}
    scene.ask(1)
    began = scene.now
    scene.now += 1.0
    scene.ask(2)
    assert scene.schedule.oldest_poll_began_at == began
    scene.answer()
    assert scene.asked == [(("a",), 1, 0.0), (("a",), 1, 0.0)]
    assert scene.received == ["a", "a"]
    assert scene.schedule.oldest_poll_began_at is None


def test_polls_that_fail_side_by_side_are_one_failure() -> None:
    scene = Scene("a")
    scene.is_down = True
    for free in (1, 2, 3, 4):
        scene.ask(free)
    scene.now += 0.1
    scene.answer()
    assert scene.schedule.due <= scene.now + 0.5


def test_polls_that_fail_one_after_the_other_are_two() -> None:
    scene = Scene("a")
    scene.is_down = True
    scene.turn(1)
    assert scene.turn(1) > 0.5

"""Which slot gets what, what waits, what is handed back, and what a second delivery leads to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perago.domain.errors import OrchestratorUnavailableError
from perago.domain.events import AttemptEnded, AttemptStarted, PollFailed
from perago.domain.outcome import Completed, Failed, JsonObject, Phase
from perago.runtime.actions import HandBack, Run, SendPoll
from perago.runtime.inputs import Seen
from perago.runtime.leases import LEASE_LOST
from perago.runtime.messages import CleanedUp, Decided, PhaseBegan, Ready
from tests.unit.runtime.turn_scene import BROKE, DONE, OPTIONS, TurnScene, polled


def scene_that_knows(seconds: float) -> TurnScene:
    """A worker of one slot in which an attempt of the task took so long."""
    scene = TurnScene()
    scene.receive(polled("first"))
    scene.says(Decided(outcome=DONE), CleanedUp(), after=seconds)
    scene.answer_report()
    return scene


# -- slots and what waits for them


def test_what_finds_no_slot_is_handed_back() -> None:
    scene = TurnScene(2)
    scene.receive(polled("a"), polled("b"), polled("c"))
    assert scene.running() == ["a", "b"]
    assert scene.handed_back == ["c/1"]


def test_the_slot_that_was_used_last_comes_first() -> None:
    scene = TurnScene(3)
    scene.turn.slots[1].last_used = 5.0
    scene.receive(polled("a"))
    assert scene.running() == ["", "a", ""]


def test_a_slot_that_an_attempt_left_was_used_last() -> None:
    scene = TurnScene(3)
    scene.receive(polled("a"), polled("b"))
    scene.says(Decided(outcome=DONE), CleanedUp(), slot=1)
    scene.receive(polled("c"))
    assert scene.running() == ["a", "c", ""]


def test_an_attempt_is_told_of_and_run_under_its_own_execution() -> None:
    scene = TurnScene(2)
    scene.receive(polled("a"), polled("b"))
    runs = [action for action in scene.actions if isinstance(action, Run)]
    assert [(run.slot, run.assignment.execution_id) for run in runs] == [
        (0, f"{1:032x}"),
        (1, f"{2:032x}"),
    ]
    begun = [event.execution for event in scene.events if isinstance(event, AttemptStarted)]
    assert begun == [run.assignment.execution for run in runs]
    assert scene.cells == {0: (scene.now + 60.0, 1), 1: (scene.now + 60.0, 1)}


def test_the_next_attempt_waits_for_one_that_is_reporting() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    assert scene.turn.room == 0
    scene.decide()
    assert scene.turn.room == 1
    scene.receive(polled("b"))
    assert scene.turn.room == 0
    assert (scene.running(), scene.waiting()) == (["a"], ["b"])

    scene.clean_up()
    assert scene.running() == ["b"]
    assert scene.handed_back == []


def test_what_waits_counts_towards_the_limit_of_its_task() -> None:
    scene = TurnScene(2, replace(OPTIONS, task_limits={"task": 2}))
    scene.receive(polled("a"))
    scene.answer_polls()
    scene.decide()
    scene.receive(polled("b"), polled("c"))
    assert (scene.running(), scene.waiting()) == (["a", "b"], ["c"])
    scene.decide(slot=1)
    before = len(scene.polls)
    scene.step(after=1.0)
    assert scene.turn.room == 1
    assert len(scene.polls) == before, "three of two allowed"


def test_where_nobody_asks_for_limits_nothing_is_counted() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    assert not scene.turn._running
    limited = TurnScene(1, replace(OPTIONS, task_limits={"other": 1}))
    limited.receive(polled("a"))
    assert limited.turn._running == {"task": 1}


def test_what_waits_for_a_slot_that_is_lost_is_handed_back() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.decide()
    scene.receive(polled("b"))
    scene.die()
    assert scene.handed_back == ["b/1"]


def test_a_slot_whose_process_is_being_killed_will_not_soon_make_room() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.decide()
    scene.receive(polled("b"))
    scene.exceed("too many processes")
    assert scene.turn.room < 0
    scene.receive(polled("c"))
    assert scene.handed_back == ["b/1", "c/1"]


def test_what_waits_too_long_is_handed_back() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.decide()
    scene.receive(polled("b"), ago=4.0)  # a poll that waited at the server
    scene.step(after=5.0)
    assert scene.handed_back == []
    scene.step(after=0.1)
    assert scene.handed_back == ["b/1"]
    assert scene.waiting() == []


def test_a_short_lease_is_not_spent_on_waiting() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.decide()
    scene.receive(polled("b", lease_seconds=8.0))
    scene.step(after=2.0)
    assert scene.handed_back == []
    scene.step(after=0.1)
    assert scene.handed_back == ["b/1"]


def test_a_lease_that_was_used_up_at_the_server_is_not_waited_with() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.decide()
    scene.receive(polled("b", lease_seconds=8.0), ago=2.0)
    assert scene.handed_back == []
    scene.step(after=0.1)
    assert scene.handed_back == ["b/1"]


def test_the_next_attempt_is_asked_for_while_a_brief_one_runs() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    assert scene.turn.room == 0, "nobody knows how long it takes"

    scene = scene_that_knows(0.002)
    scene.receive(polled("b"))
    assert scene.assignment().is_brief
    assert scene.turn.room == 1
    scene.receive(polled("c"))
    assert (scene.running(), scene.turn.room) == (["b"], 0)
    scene.says(Decided(outcome=DONE), CleanedUp())
    assert scene.running() == ["c"]


@pytest.mark.parametrize(("seconds", "is_brief"), [(0.019, True), (0.021, False)])
def test_brief_is_less_than_a_poll_takes(seconds: float, is_brief: bool) -> None:
    scene = scene_that_knows(seconds)
    scene.receive(polled("b"))
    assert scene.assignment().is_brief is is_brief


def test_a_task_that_was_brief_once_is_not_taken_for_brief_for_ever() -> None:
    scene = scene_that_knows(0.002)
    scene.receive(polled("a"))
    scene.says(Decided(outcome=DONE), CleanedUp(), after=1.0)
    scene.receive(polled("b"))
    assert not scene.assignment().is_brief
    assert scene.turn.room == 0


def test_a_task_that_became_brief_is_taken_for_it_after_some_attempts() -> None:
    scene = scene_that_knows(0.03)
    were_brief = []
    for number in range(3):
        scene.receive(polled(f"a{number}"))
        were_brief.append(scene.assignment().is_brief)
        scene.says(Decided(outcome=DONE), CleanedUp())
        scene.answer_report()
    assert were_brief == [False, False, True], "the newest counts for three tenths"


def test_how_long_an_attempt_takes_is_not_learned_from_one_that_failed() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.says(Decided(outcome=BROKE), CleanedUp())
    scene.receive(polled("b"))
    assert not scene.assignment().is_brief


def test_one_that_is_not_brief_after_all_keeps_no_room() -> None:
    scene = scene_that_knows(0.002)
    scene.receive(polled("a"))
    scene.receive(polled("b"))
    assert (scene.running(), scene.waiting()) == (["a"], ["b"])

    seen = Seen(slot=0, execution_id=scene.assignment().execution_id, phase=Phase.BODY)
    scene.step(seen)

    assert scene.turn.room == 0
    assert scene.handed_back == ["b/1"]


def test_the_last_words_of_a_dead_executor_make_no_room_in_it() -> None:
    scene = TurnScene(1, replace(OPTIONS, recycle_after_attempts=1))
    scene.receive(polled("a"))
    scene.decide()
    scene.receive(polled("b"))
    scene.die(CleanedUp())

    assert scene.running() == [""]
    assert scene.runs == ["a"]
    assert scene.retired == []
    assert scene.handed_back == ["b/1"]
    assert [end.outcome for end in scene.ends()] == [DONE]


def test_an_executor_that_dies_after_its_last_words_is_replaced() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.die(Decided(outcome=DONE), CleanedUp())
    assert (scene.running(), scene.collected) == ([""], [])
    scene.step(after=0.1)
    assert scene.spawned == [0, 0]


def test_a_closed_worker_hands_back_what_waits_and_what_comes() -> None:
    scene = TurnScene(2)
    scene.receive(polled("a"))
    scene.receive(polled("b"))
    scene.decide()
    scene.receive(polled("c"))
    scene.turn.request_stop(scene.now)
    scene.step()
    scene.receive(polled("d"), polled("e", refusal="too deep"))
    assert scene.running() == ["a", "b"]
    assert scene.handed_back == ["c/1", "d/1", "e/1"]
    assert scene.turn.room == 0
    assert (scene.ends(), scene.reports[1:]) == ([], [])


def test_a_hand_back_that_fails_is_left_to_the_lease(caplog: pytest.LogCaptureFixture) -> None:
    scene = TurnScene()
    scene.receive(polled("a"), polled("b"))
    scene.answer_hand_backs(OrchestratorUnavailableError("no answer"))
    assert "b cannot be handed back, its lease decides: no answer" in caplog.text
    assert not any(isinstance(action, HandBack) for action in scene.actions)


def test_a_hand_back_that_succeeds_is_not_worth_a_word(caplog: pytest.LogCaptureFixture) -> None:
    scene = TurnScene()
    scene.receive(polled("a"), polled("b"))
    scene.answer_hand_backs()
    assert caplog.text == ""


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_is_taken_than_allowed(most: int) -> None:
    scene = TurnScene(2, replace(OPTIONS, max_attempts=most))
    assert scene.turn.room == most
    scene.receive(*(polled(name) for name in "ab"[:most]))
    assert scene.turn.room == 0
    for slot in range(most):
        assert not scene.is_finished()
        scene.says(Decided(outcome=DONE), CleanedUp(), slot=slot)
        scene.answer_report()
    assert scene.turn.room == 0
    assert scene.is_finished()


def test_what_waits_is_as_good_as_taken() -> None:
    scene = TurnScene(1, replace(OPTIONS, max_attempts=2))
    scene.receive(polled("a"))
    scene.decide()
    assert scene.turn.room == 1
    scene.receive(polled("b"))
    assert scene.waiting() == ["b"]
    assert scene.turn.room == 0


# -- the same task again


def test_a_task_that_is_delivered_again_runs_once_under_its_new_delivery(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = TurnScene(2)
    scene.receive(polled("a"))
    deadline, _ = scene.cells[0]
    scene.receive(polled("a", delivery=2))
    assert scene.running() == ["a", ""]
    assert scene.assignment().attempt.poll_count == 2
    assert scene.cells[0] == (deadline, 2)
    assert "a was delivered again while it runs" in caplog.text
    assert (scene.runs, scene.handed_back, scene.killed) == (["a"], [], [])


def test_a_report_is_about_the_delivery_that_was_adopted() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.receive(polled("a", delivery=2))
    scene.decide()
    assert [report.attempt.poll_count for report in scene.reports] == [2]


@pytest.mark.parametrize(
    ("task_input", "scheduled_time", "retry_count", "refusal"),
    [
        ({"n": 2}, 7, 0, None),
        ({"n": 1}, 8, 0, None),
        ({"n": 1}, 7, 1, None),
        ({"n": 1}, 7, 0, "too deep"),
    ],
)
def test_other_work_under_the_same_id_ends_the_body_and_is_handed_back(
    task_input: JsonObject,
    scheduled_time: int,
    retry_count: int,
    refusal: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = TurnScene(2)
    scene.receive(polled("a", task_input={"n": 1}, scheduled_time=7))
    scene.receive(
        polled(
            "a",
            delivery=2,
            task_input=task_input,
            scheduled_time=scheduled_time,
            retry_count=retry_count,
            refusal=refusal,
        )
    )
    assert scene.running() == ["a", ""]
    assert (scene.handed_back, scene.killed) == (["a/2"], [0])
    assert "a was delivered anew while an earlier delivery runs, which ends" in caplog.text
    assert scene.cells[0] == (LEASE_LOST, 1)
    assert scene.log == ["given up: its task was scheduled anew"]

    scene.die()
    assert (scene.reports, scene.counts) == ([], [])
    assert [end.outcome for end in scene.ends()] == [None]


def test_the_old_body_of_a_task_that_was_scheduled_anew_reports_nothing() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.receive(polled("a", delivery=2, task_input={"n": 2}))
    scene.decide()
    scene.receive(polled("a", delivery=3, task_input={"n": 2}))
    assert scene.handed_back == ["a/2", "a/3"]
    assert scene.log.count("given up: its task was scheduled anew") == 1
    scene.die()
    assert (scene.reports, scene.counts) == ([], [])


def test_other_work_waits_until_the_end_of_the_old_one_is_reported_and_cleaned_up() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.decide()
    scene.receive(polled("a", delivery=2, task_input={"n": 2}))
    assert (scene.handed_back, scene.killed, scene.log) == (["a/2"], [], [])
    scene.clean_up()
    scene.receive(polled("a", delivery=3, task_input={"n": 2}))
    assert scene.handed_back == ["a/2", "a/3"]
    assert [report.attempt.poll_count for report in scene.reports] == [1]

    scene.answer_report(stale="it was delivered again: poll 3, not 1")
    scene.receive(polled("a", delivery=4, task_input={"n": 2}))
    assert scene.assignment().polled.input == {"n": 2}


def test_a_task_that_was_given_up_is_not_taken_again_while_it_ends() -> None:
    scene = TurnScene(2)
    scene.receive(polled("a"))
    scene.pass_time(60.0)
    assert scene.assignment().cancelled_at is not None
    scene.receive(polled("a", delivery=2))
    assert scene.running() == ["a", ""]
    assert (scene.handed_back, scene.killed) == (["a/2"], [0])


def test_a_task_that_is_delivered_again_while_its_end_is_reported_does_not_run_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.decide()
    scene.receive(polled("a", delivery=2))
    scene.clean_up()
    scene.receive(polled("a", delivery=3), polled("b", delivery=2))

    assert scene.running() == ["b"]
    assert scene.handed_back == []
    assert "a was delivered again while its end is reported" in caplog.text
    scene.fail_report()
    scene.step(after=0.5)
    assert [report.attempt.poll_count for report in scene.reports] == [3]


def test_a_report_that_crossed_a_second_delivery_is_sent_again_for_that_one() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.decide()
    scene.receive(polled("a", delivery=2))
    scene.answer_report(stale="it was delivered again: poll 2, not 1")
    assert scene.told_reported == []
    assert [report.attempt.poll_count for report in scene.reports] == [2]

    scene.answer_report()
    assert scene.told_reported == [True]
    scene.clean_up()
    assert [end.outcome for end in scene.ends()] == [DONE]


def test_a_report_that_was_accepted_is_not_sent_again_for_another_delivery() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.decide()
    scene.receive(polled("a", delivery=2))
    scene.answer_report()
    assert (scene.reports, scene.told_reported) == ([], [True])


def test_what_is_delivered_again_after_its_report_was_heard_is_not_lost() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.decide()
    scene.answer_report(stale="it was delivered again: poll 2, not 1")
    scene.receive(polled("a", delivery=2))
    assert scene.handed_back == ["a/2"]
    assert scene.killed == [], "its clean-up goes on"

    scene.clean_up()
    scene.receive(polled("a", delivery=3))
    assert scene.assignment().attempt.poll_count == 3


def test_a_task_that_a_dead_worker_held_is_not_failed_under_a_new_delivery(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = TurnScene()
    scene.turn.fail_for_dead_worker(polled("a").attempt, scene.now)
    scene.step()
    scene.receive(polled("a", delivery=2))
    assert scene.handed_back == []
    assert scene.running() == ["a"], "it is another delivery, and runs"
    scene.pass_time(101)
    assert [report.attempt.poll_count for report in scene.reports] == [1]


def test_a_task_that_is_delivered_again_while_it_waits_begins_once() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.decide()
    scene.receive(polled("b"))
    scene.receive(polled("b", delivery=2))
    scene.clean_up()
    attempt = scene.assignment().attempt
    assert (attempt.task_id, attempt.poll_count) == ("b", 2)
    assert scene.handed_back == []


# -- work that no task can be given


def test_what_cannot_be_given_to_a_task_is_failed_without_a_slot() -> None:
    scene = TurnScene()
    scene.receive(polled("a", refusal="its input is nested too deeply"), polled("b"))
    assert scene.running() == ["b"]
    refused = Failed(reason="its input is nested too deeply", phase=Phase.VALIDATE)
    assert [report.outcome for report in scene.reports] == [refused]
    assert [end.outcome for end in scene.ends()] == [refused]
    kinds = [type(event) for event in scene.events]
    assert kinds.index(AttemptStarted) < kinds.index(AttemptEnded)

    scene.answer_report()
    assert scene.turn.reports.is_empty


def test_a_refused_task_that_is_delivered_again_is_reported_once_for_that_delivery() -> None:
    scene = TurnScene()
    scene.receive(polled("a", refusal="too deep"))
    scene.receive(polled("a", delivery=2, refusal="too deep"))
    assert len(scene.reports) == 1
    scene.answer_report(stale="it was delivered again")
    (report,) = scene.reports
    assert report.attempt.poll_count == 2


def test_a_refused_attempt_is_one_of_those_that_are_taken() -> None:
    scene = TurnScene(2, replace(OPTIONS, max_attempts=1))
    scene.receive(polled("a", refusal="too deep"))
    assert scene.turn.room == 0
    scene.answer_report()
    assert scene.is_finished()


def test_a_refused_delivery_replaces_one_that_waits() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.decide()
    scene.receive(polled("b"))
    scene.receive(polled("b", delivery=2, scheduled_time=8, refusal="too deep"))
    assert scene.waiting() == []
    scene.clean_up()
    assert scene.runs == ["a"]


# -- polling


def test_a_worker_polls_for_what_its_slots_can_take_and_says_what_it_got() -> None:
    scene = TurnScene(3)
    assert [(poll.names, poll.count) for poll in scene.polls] == [(("task",), 3)]
    scene.answer_polls(OrchestratorUnavailableError("no answer"))
    assert [event.reason for event in scene.events if isinstance(event, PollFailed)] == [
        "no answer"
    ]


def test_nothing_is_polled_before_an_executor_is_ready() -> None:
    scene = TurnScene(is_ready=False)
    scene.pass_time(2.0)
    assert scene.polls == []
    scene.says(Ready())
    assert len(scene.polls) == 1


def test_a_worker_whose_reports_are_not_heard_takes_less_and_less() -> None:
    scene = TurnScene(2)
    for number, name in enumerate(("a", "b", "c", "d")):
        assert scene.turn.room == min(2, 4 - number)
        scene.receive(polled(name))
        scene.says(Decided(outcome=DONE), CleanedUp())
    assert scene.turn.room == 0
    scene.answer_report()
    assert scene.turn.room == 1


def test_an_attempt_that_ends_frees_its_slot_at_once_for_the_next_poll() -> None:
    scene = TurnScene()
    scene.pass_time(10.0)
    scene.receive(polled("a"))
    scene.enter(Phase.BODY)
    assert scene.polls == []
    scene.says(Decided(outcome=DONE), CleanedUp())
    assert any(isinstance(action, SendPoll) for action in scene.actions)


def test_an_outcome_and_a_clean_up_are_each_followed_by_a_poll_at_once() -> None:
    """Each may have scheduled an attempt; a pause between polls would only delay it."""
    scene = TurnScene(2)
    scene.receive(polled("a"))
    scene.enter(Phase.BODY)
    for words in (Decided(outcome=DONE), CleanedUp()):
        scene.answer_polls()
        scene.step()
        assert scene.polls == [], "a pause"
        scene.says(words)
        assert len(scene.polls) == 1


def test_two_attempts_are_never_one_another() -> None:
    scene = TurnScene(2)
    scene.receive(polled("a"), polled("b"))
    scene.says(PhaseBegan(phase=Phase.BODY), slot=1)
    scene.decide(Completed(output={"result": {"of": "b"}}), slot=1)
    assert not scene.assignment(0).is_decided
    assert [report.attempt.task_id for report in scene.reports] == ["b"]

"""Beat, read back, give up: what a worker does for the lease of a running attempt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perago.domain.attempt import AttemptStatus
from perago.domain.errors import NotFoundInOrchestratorError
from perago.domain.events import HeartbeatFailed, LeaseLost
from perago.domain.outcome import Completed, Failed, Phase
from perago.domain.workflow import PolledTask
from perago.runtime.actions import Beat
from perago.runtime.inputs import ReportAnswered
from perago.runtime.leases import LEASE_LOST
from perago.runtime.messages import CleanedUp, Ready
from perago.runtime.reports import ReportTaken
from tests.unit.runtime.turn_scene import (
    BEAT,
    BROKE,
    DONE,
    LEASE,
    SILENCE,
    TurnScene,
    polled,
    snapshot_of,
)


def running(task: PolledTask | None = None) -> TurnScene:
    scene = TurnScene()
    scene.receive(task or polled("a"))
    scene.enter(Phase.BODY)
    scene.told()
    return scene


@pytest.fixture
def scene() -> TurnScene:
    return running()


def cancelled_at(scene: TurnScene) -> float | None:
    return scene.assignment().cancelled_at


def test_beats_hold_a_lease_for_much_longer_than_it_is(scene: TurnScene) -> None:
    for _ in range(int(5 * LEASE / BEAT)):
        scene.step(after=BEAT)
        scene.answer_beat()

    assert cancelled_at(scene) is None
    assert scene.assignment().lease.deadline == pytest.approx(scene.now + LEASE)
    assert scene.cells[0] == (scene.now + LEASE, 1)


def test_no_beat_is_sent_before_it_is_due(scene: TurnScene) -> None:
    scene.step(after=BEAT - 0.1)
    assert scene.beats == []
    scene.step(after=0.2)
    assert len(scene.beats) == 1


def test_an_attempt_that_was_ended_elsewhere_is_given_up_at_the_next_beat(
    scene: TurnScene,
) -> None:
    scene.step(after=BEAT)
    scene.answer_beat(snapshot_of(scene.assignment().attempt, AttemptStatus.CANCELED))

    assert cancelled_at(scene) == scene.now
    assert scene.cells[0] == (LEASE_LOST, 1)
    assert scene.log == ["given up: its status is CANCELED, not IN_PROGRESS"]
    reason = "its status is CANCELED, not IN_PROGRESS"
    assert LeaseLost(attempt=scene.assignment().attempt, reason=reason) in scene.events


def test_a_failed_beat_is_no_loss_and_a_whole_lease_of_them_is(scene: TurnScene) -> None:
    scene.step(after=BEAT)
    scene.answer_beat(SILENCE)
    assert cancelled_at(scene) is None
    failed = HeartbeatFailed(attempt=scene.assignment().attempt, reason="no answer")
    assert scene.events[-1] == failed
    assert scene.beats == []

    scene.step(after=BEAT / 2)
    scene.answer_beat(SILENCE)
    scene.step(after=LEASE)
    assert cancelled_at(scene) is not None
    assert scene.log == ["given up: no heartbeat succeeded for the whole lease"]


def test_the_overall_time_ends_an_attempt_that_beats_well() -> None:
    scene = running(polled("a", timeout_seconds=3 * BEAT))
    for _ in range(2):
        scene.step(after=BEAT)
        scene.answer_beat()
    scene.step(after=BEAT)

    assert cancelled_at(scene) is not None
    assert scene.log == ["given up: its overall time is used up"]


def test_an_attempt_that_ended_in_this_very_moment_is_over_not_stale(scene: TurnScene) -> None:
    """What an executor said is taken before the answer to a beat."""
    scene.step(after=BEAT)
    scene.decide()
    scene.answer_beat(snapshot_of(scene.assignment().attempt, AttemptStatus.COMPLETED))

    assert cancelled_at(scene) is None
    assert scene.log == []


def test_an_attempt_that_is_being_cleaned_up_needs_no_lease(scene: TurnScene) -> None:
    scene.decide()
    scene.answer_report()
    scene.enter(Phase.CLEANUP)
    scene.pass_time(10 * LEASE, by=10.0)

    assert cancelled_at(scene) is None
    assert (scene.beats, scene.killed) == ([], [])
    assert scene.assignment().lease_due is None


def test_a_server_that_takes_its_time_is_asked_once_and_its_answer_counts(
    scene: TurnScene,
) -> None:
    scene.step(after=BEAT)
    began = scene.now
    scene.step(after=BEAT)
    assert len(scene.beats) == 1
    assert scene.beats[0].began == began

    # The answer is late: the next beat is due at once.
    scene.answer_beat()
    assert scene.assignment().lease.deadline == pytest.approx(began + LEASE)
    assert scene.cells[0] == (began + LEASE, 1)
    assert len(scene.beats) == 1
    scene.step(after=BEAT)
    assert len(scene.beats) == 1


def test_a_lease_runs_out_though_a_beat_is_still_under_way(scene: TurnScene) -> None:
    scene.step(after=BEAT)
    scene.step(after=LEASE)
    assert cancelled_at(scene) is not None

    scene.answer_beat()
    assert cancelled_at(scene) is not None
    assert scene.cells[0] == (LEASE_LOST, 1)


def test_an_answer_for_an_attempt_that_has_ended_changes_nothing(scene: TurnScene) -> None:
    scene.step(after=BEAT)
    attempt = scene.assignment().attempt
    scene.decide()
    scene.clean_up()
    scene.receive(polled("b"))
    cell = scene.cells[0]
    scene.answer_beat(snapshot_of(attempt, AttemptStatus.CANCELED))

    assert cancelled_at(scene) is None
    assert (scene.cells[0], scene.log) == (cell, [])


def test_an_answer_for_an_attempt_that_died_is_none_for_the_next_in_its_slot(
    scene: TurnScene,
) -> None:
    scene.step(after=BEAT)
    dead = scene.assignment()
    scene.die()
    scene.step(after=0.1)
    scene.says(Ready())
    scene.receive(polled("b"))
    cell = scene.cells[0]
    scene.answer_beat(snapshot_of(dead.attempt, AttemptStatus.CANCELED))

    assert dead.cancelled_at is None
    assert (scene.cells[0], scene.log) == (cell, [])
    assert len(scene.counts) == 1, "its death is still to be reported"


def test_the_lease_is_kept_until_the_outcome_is_known(scene: TurnScene) -> None:
    scene.enter(Phase.REPORT)
    for _ in range(int(3 * LEASE / BEAT)):
        scene.step(after=BEAT)
        scene.answer_beat()
    assert cancelled_at(scene) is None


# -- reports and heartbeats are the same request


def test_heartbeats_end_with_the_outcome(scene: TurnScene) -> None:
    scene.decide()
    scene.pass_time(3 * LEASE)
    assert (scene.beats, cancelled_at(scene)) == ([], None)
    assert [report.outcome for report in scene.reports] == [DONE]


def test_a_beat_and_an_end_in_one_turn_send_the_report_alone(scene: TurnScene) -> None:
    scene.now += BEAT
    scene.decide()
    assert not any(isinstance(action, Beat) for action in scene.actions)
    assert len(scene.reports) == 1


def test_a_report_waits_for_a_heartbeat_that_is_under_way(scene: TurnScene) -> None:
    scene.step(after=BEAT)
    scene.decide()
    scene.pass_time(1.0)
    assert scene.reports == []
    assert scene.turn.next_due(scene.now, 0.25) == scene.now + 0.25, "nothing else is due"
    scene.answer_beat()
    assert [report.outcome for report in scene.reports] == [DONE]


def test_a_report_waits_for_a_heartbeat_that_fails_too(scene: TurnScene) -> None:
    scene.step(after=BEAT)
    scene.decide()
    scene.answer_beat(SILENCE)
    assert [report.outcome for report in scene.reports] == [DONE]
    assert not any(isinstance(event, HeartbeatFailed) for event in scene.events)


def test_a_report_about_a_death_waits_for_a_heartbeat_that_is_under_way(scene: TurnScene) -> None:
    scene.step(after=BEAT)
    scene.die()
    assert scene.counts == []
    scene.answer_beat()
    assert len(scene.counts) == 1


def test_a_report_that_waits_for_a_heartbeat_is_not_forgotten_at_the_end_of_a_drain(
    scene: TurnScene,
) -> None:
    scene.turn.request_stop(scene.now)
    scene.pass_time(29.0)
    scene.beats = scene.beats[-1:]
    scene.decide()
    scene.clean_up()
    scene.step(after=1.5)
    assert not scene.is_finished()
    scene.answer_beat()
    assert [report.outcome for report in scene.reports] == [DONE]


# -- what was given up


def test_an_attempt_that_was_given_up_reports_nothing_whatever_it_ends_with(
    scene: TurnScene,
) -> None:
    scene.pass_time(LEASE)
    scene.decide(Failed(reason="its lease was lost", phase=Phase.PUBLISH))

    assert scene.reports == []
    assert scene.turn.reports.is_empty
    assert scene.told_reported == [False], "it may clean up, though"
    scene.clean_up()
    assert [end.status for end in scene.ends()] == ["GIVEN_UP"]


def test_an_attempt_that_was_given_up_reports_no_success(scene: TurnScene) -> None:
    scene.pass_time(LEASE)
    scene.decide(DONE)
    scene.clean_up()
    assert scene.turn.reports.is_empty
    assert [end.outcome for end in scene.ends()] == [None]


def test_the_death_of_an_attempt_that_was_given_up_is_not_reported(scene: TurnScene) -> None:
    scene.pass_time(LEASE)
    scene.die()
    scene.pass_time(LEASE)
    assert (scene.counts, scene.reports) == ([], [])
    assert scene.collected == [f"{1:032x}"]
    assert [end.status for end in scene.ends()] == ["GIVEN_UP"]


def test_a_body_that_was_given_up_has_two_seconds_to_react(scene: TurnScene) -> None:
    scene.pass_time(LEASE)
    scene.step(after=1.9)
    assert scene.killed == []
    scene.step(after=0.1)
    assert scene.killed == [0]
    scene.step(after=1.0)
    assert scene.killed == [0], "once"


def test_what_cleans_up_already_has_more_time_for_it(scene: TurnScene) -> None:
    scene.pass_time(LEASE)
    scene.step(after=1.0)
    scene.decide(Failed(reason="its lease was lost", phase=Phase.BODY))
    scene.step(after=8.9)
    assert scene.killed == []
    scene.step(after=0.1)
    assert scene.killed == [0]


def test_an_attempt_that_was_given_up_sends_no_beats(scene: TurnScene) -> None:
    scene.pass_time(LEASE)
    scene.beats = []
    scene.step(after=1.5)
    assert scene.beats == []
    assert scene.assignment().lease_due is None


# -- one message at the end


def test_an_outcome_is_taken_once(scene: TurnScene) -> None:
    scene.decide(DONE)
    scene.decide(BROKE)
    assert [report.outcome for report in scene.reports] == [DONE]
    scene.clean_up()
    assert [end.outcome for end in scene.ends()] == [DONE]


def test_an_executor_that_waits_hears_what_became_of_its_report(scene: TurnScene) -> None:
    scene.decide()
    assert scene.told_reported == []
    scene.answer_report()
    assert scene.told_reported == [True]
    scene.clean_up()
    assert [end.outcome for end in scene.ends()] == [DONE]


def test_a_success_that_was_not_taken_is_given_up(
    scene: TurnScene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.decide()
    scene.answer_report(stale="its status is CANCELED, not IN_PROGRESS")
    assert "a is not reported: its status is CANCELED, not IN_PROGRESS" in caplog.text
    assert scene.told_reported == [False]
    scene.clean_up()
    assert [end.status for end in scene.ends()] == ["GIVEN_UP"]


def test_a_failure_that_was_not_taken_is_a_failure(scene: TurnScene) -> None:
    scene.decide(BROKE)
    scene.answer_report(stale="its status is CANCELED, not IN_PROGRESS")
    scene.clean_up()
    assert [end.outcome for end in scene.ends()] == [BROKE]


def test_a_success_whose_commit_is_not_there_ends_as_what_was_reported(scene: TurnScene) -> None:
    scene.decide(Completed(output={"result": {"is": "forged"}}))
    failed = Failed(reason="there is no such commit", phase=Phase.REPORT)
    scene.answer_report(outcome=failed)
    scene.clean_up()
    assert [end.outcome for end in scene.ends()] == [failed]


def test_a_report_that_nobody_will_hear_keeps_no_executor_waiting(scene: TurnScene) -> None:
    scene.decide()
    scene.fail_report(NotFoundInOrchestratorError("there is no such task"))
    assert scene.told_reported == [False]
    assert scene.turn.reports.is_empty


def test_a_report_that_is_tried_again_says_nothing_yet(scene: TurnScene) -> None:
    scene.decide()
    scene.fail_report()
    assert scene.told_reported == []
    scene.step(after=0.5)
    scene.answer_report()
    assert scene.told_reported == [True]


def test_a_report_that_is_heard_after_the_clean_up_is_told_to_nobody(scene: TurnScene) -> None:
    scene.decide()
    scene.clean_up()
    scene.receive(polled("b"))
    scene.answer_report()
    assert scene.told_reported == []
    assert not scene.assignment().is_decided


def test_a_report_that_is_heard_may_bring_the_next_attempt_of_its_workflow() -> None:
    scene = TurnScene(2)
    for _ in range(20):
        scene.answer_polls()
        scene.step(after=0.25)
    scene.answer_polls()
    scene.receive(polled("a"))
    scene.decide()
    scene.answer_polls()
    scene.answer_report()
    assert scene.polls, "asked at once, not after a pause"


def test_an_end_without_an_outcome_ends_its_executor(scene: TurnScene) -> None:
    scene.says(CleanedUp())
    assert scene.killed == [0]
    assert scene.running() == ["a"]
    scene.die()
    scene.answer_count()
    (report,) = scene.reports
    assert isinstance(report.outcome, Failed)
    assert "an end without an outcome" in report.outcome.reason


def test_words_of_an_executor_without_an_attempt_mean_nothing() -> None:
    scene = TurnScene()
    scene.decide()
    scene.enter(Phase.BODY)
    scene.clean_up()
    assert (scene.reports, scene.killed, scene.told()) == ([], [], [])


def test_an_answer_to_a_report_that_was_sent_twice_is_taken_by_its_own(scene: TurnScene) -> None:
    scene.decide()
    report = scene.reports.pop()
    scene.step(ReportAnswered(report=report, answer=SILENCE))
    scene.step(after=0.5)
    assert scene.reports == [report]
    scene.step(ReportAnswered(report=report, answer=ReportTaken(outcome=DONE)))
    assert scene.turn.reports.is_empty


@pytest.mark.parametrize("delivery", [1, 2])
def test_a_beat_is_judged_by_the_delivery_that_runs_by_now(scene: TurnScene, delivery: int) -> None:
    scene.step(after=BEAT)
    if delivery == 2:
        scene.receive(polled("a", delivery=2))
    again = replace(snapshot_of(scene.assignment().attempt), poll_count=2)
    scene.answer_beat(again)
    assert (cancelled_at(scene) is None) is (delivery == 2)

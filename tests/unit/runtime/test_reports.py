"""Reports: held until due, tried again, given up in the end, and kept until they are heard."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perago.domain.attempt import Attempt
from perago.domain.errors import (
    NotFoundInOrchestratorError,
    OrchestratorError,
    OrchestratorUnavailableError,
    PeragoError,
)
from perago.domain.events import AttemptTally
from perago.domain.execution import execution_of
from perago.domain.ids import ExecutionId, TaskId, WorkflowId
from perago.domain.outcome import Failed, Phase
from perago.domain.workflow import PolledTask
from perago.runtime.leases import start_lease
from perago.runtime.reports import Death, Report, Reports
from perago.runtime.slot import Assignment

ATTEMPT = Attempt(
    workflow_id=WorkflowId("w"), task_id=TaskId("t"), task_name="task", reference_name="ref"
)
POLLED = PolledTask(attempt=ATTEMPT, input={}, lease_seconds=60.0)
FAILED = Failed(reason="died", phase=Phase.BODY)
GIVE_UP = 600.0
SILENCE = OrchestratorUnavailableError("no answer")


class Scene:
    """Reports that an orchestrator hears only after so many silences, or other errors."""

    def __init__(self, silences: int = 0, error: PeragoError = SILENCE) -> None:
        self.now = 1000.0
        self.reports = Reports()
        self.silences = silences
        self.error = error
        self.heard: list[object] = []
        self.tries: list[float] = []

    def add(self, delay: float = 0.0) -> None:
        self.reports.add(ATTEMPT, now=self.now, outcome=FAILED, delay=delay)

    def send_due(self) -> None:
        for report in self.reports.take_due(self.now):
            self.tries.append(self.now)
            if self.silences:
                self.silences -= 1
                self.reports.try_again(report, self.error, self.now)
            else:
                self.heard.append(report.outcome)
                self.reports.close(report)

    def pass_time(self, seconds: float, by: float = 0.5) -> None:
        end = self.now + seconds
        while self.now < end:
            self.send_due()
            self.now += by

    def only(self) -> Report:
        report = self.reports.find(ATTEMPT.task_id)
        assert report is not None
        return report


def an_assignment() -> Assignment:
    return Assignment(
        polled=POLLED,
        tally=AttemptTally(execution=execution_of(POLLED, ExecutionId("0" * 32))),
        lease=start_lease(
            polled_at=0.0, lease_seconds=60.0, heartbeat_seconds=5.0, timeout_seconds=None
        ),
        began=0.0,
        is_brief=False,
    )


def test_a_report_is_sent_once_and_at_once() -> None:
    scene = Scene()
    scene.add()

    scene.send_due()
    scene.send_due()
    assert scene.heard == [FAILED]
    assert scene.reports.is_empty


def test_a_delayed_report_waits() -> None:
    scene = Scene()
    scene.add(delay=60)
    assert scene.reports.dues == [scene.now + 60]

    scene.send_due()
    assert scene.heard == []
    assert not scene.reports.is_empty
    scene.now += 60
    scene.send_due()
    assert scene.heard == [FAILED]


def test_silence_is_answered_with_patience() -> None:
    scene = Scene(silences=5)
    scene.add()
    scene.pass_time(40)

    assert scene.heard == [FAILED]
    pauses = [after - before for before, after in zip(scene.tries, scene.tries[1:], strict=False)]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0]


def test_the_pause_between_tries_is_bounded() -> None:
    scene = Scene(silences=20)
    scene.add()
    scene.pass_time(300)
    pauses = [after - before for before, after in zip(scene.tries, scene.tries[1:], strict=False)]
    assert max(pauses) == 15.0


def test_what_is_not_heard_is_counted_and_known_by_its_task() -> None:
    scene = Scene(silences=1)
    scene.add(delay=60)
    reports = scene.reports
    assert reports.unheard == 0
    assert reports.find(ATTEMPT.task_id) is not None

    scene.now += 60
    scene.send_due()
    assert reports.unheard == 1
    assert reports.find(ATTEMPT.task_id) is not None
    assert reports.find(TaskId("another")) is None

    scene.now += 60
    scene.send_due()
    assert reports.unheard == 0
    assert reports.find(ATTEMPT.task_id) is None


def test_a_report_that_is_refused_is_tried_again_and_keeps_nobody_from_polling() -> None:
    scene = Scene(silences=1, error=OrchestratorError("not with this key"))
    scene.add()

    scene.send_due()
    assert (scene.reports.unheard, scene.reports.is_empty) == (0, False)
    scene.now += 60
    scene.send_due()
    assert (scene.heard, scene.reports.is_empty) == ([FAILED], True)


def test_of_a_task_that_was_removed_nobody_is_told() -> None:
    scene = Scene(silences=1, error=NotFoundInOrchestratorError("there is no such task"))
    scene.add()

    scene.send_due()
    assert scene.reports.is_empty


def test_lasting_silence_is_left_to_the_lease() -> None:
    scene = Scene(silences=10_000)
    scene.add()
    scene.pass_time(GIVE_UP - 20)
    assert len(scene.reports.dues) == 1
    scene.pass_time(400)

    assert scene.reports.is_empty
    assert scene.heard == []
    assert GIVE_UP - 30 < scene.tries[-1] - scene.tries[0] < GIVE_UP


def test_a_report_that_had_to_wait_is_tried_for_as_long() -> None:
    scene = Scene(silences=3)
    scene.add(delay=2 * GIVE_UP)
    scene.pass_time(2 * GIVE_UP + 10)
    assert scene.heard == [FAILED]


def test_a_decision_that_had_to_wait_is_tried_for_as_long() -> None:
    scene = Scene(silences=3)
    death = Death(phase=Phase.PUBLISH, how="killed")
    scene.reports.add(ATTEMPT, now=scene.now, death=death)
    (report,) = scene.reports.take_due(scene.now)
    scene.reports.decide(report, FAILED, due=scene.now + 2 * GIVE_UP)
    scene.pass_time(2 * GIVE_UP + 10)
    assert scene.heard == [FAILED]


def test_a_report_that_is_under_way_is_not_done_and_not_sent_twice() -> None:
    reports = Reports()
    reports.add(ATTEMPT, now=0.0, outcome=FAILED)
    (report,) = reports.take_due(0.0)
    assert reports.take_due(100.0) == []
    assert (reports.is_empty, reports.unheard, reports.dues) == (False, 1, [])
    reports.close(report)
    assert (reports.is_empty, reports.unheard) == (True, 0)


def test_a_report_waits_for_the_heartbeat_of_its_attempt() -> None:
    reports, assignment = Reports(), an_assignment()
    assignment.beat_is_under_way = True
    reports.add(ATTEMPT, now=0.0, assignment=assignment, outcome=FAILED)
    assert (reports.take_due(10.0), reports.dues) == ([], [])
    assignment.beat_is_under_way = False
    assert reports.dues == [0.0]
    assert len(reports.take_due(10.0)) == 1


def test_a_death_is_counted_first_and_decided_then() -> None:
    reports = Reports()
    death = Death(phase=Phase.BODY, how="killed")
    reports.add(ATTEMPT, now=0.0, outcome=FAILED)
    reports.add(replace(ATTEMPT, task_id=TaskId("other")), now=0.0, death=death)

    _, report = reports.take_due(0.0)
    reports.try_again(report, SILENCE, 0.0)
    assert report.tries == 1
    reports.decide(report, FAILED, due=60.0)
    assert (report.outcome, report.due, report.tries) == (FAILED, 60.0, 0)
    assert reports.take_due(59.0) == []
    assert reports.take_due(60.0) == [report]


def test_a_report_knows_whose_it_is() -> None:
    reports, assignment = Reports(), an_assignment()
    reports.add(ATTEMPT, now=0.0, assignment=assignment, outcome=FAILED)
    reports.add(ATTEMPT, now=0.0, outcome=FAILED)
    ours, bare = reports.take_due(0.0)
    assert (ours.execution, ours.polled) == (assignment.execution, POLLED)
    assert (ours.after_beat_of, bare.after_beat_of) == (assignment, None)
    assert (bare.execution, bare.polled) == (None, None)


def test_a_report_is_for_the_delivery_that_came_last() -> None:
    reports = Reports()
    reports.add(ATTEMPT, now=0.0, outcome=FAILED)
    (report,) = reports.take_due(0.0)
    assert not reports.was_adopted(report)
    again = replace(POLLED, attempt=replace(ATTEMPT, poll_count=2))
    reports.adopt(report, again)
    assert (report.attempt, report.polled) == (again.attempt, again)
    assert reports.was_adopted(report)

    reports.send_again(report, 5.0)
    assert reports.take_due(5.0) == [report]
    assert not reports.was_adopted(report)


def test_at_the_end_only_what_is_due_or_was_tried_is_kept() -> None:
    reports, assignment = Reports(), an_assignment()
    assignment.beat_is_under_way = True
    names = ["under way", "tried", "held", "delayed"]
    attempts = [replace(ATTEMPT, task_id=TaskId(name)) for name in names]
    reports.add(attempts[1], now=0.0, outcome=FAILED)
    (tried,) = reports.take_due(0.0)
    reports.try_again(tried, SILENCE, 0.0)
    reports.add(attempts[0], now=0.0, outcome=FAILED)
    reports.take_due(0.0)
    reports.add(attempts[2], now=0.0, assignment=assignment, outcome=FAILED)
    reports.add(attempts[3], now=0.0, outcome=FAILED, delay=60.0)

    reports.forget_delayed(0.0)

    assert [reports.find(attempt.task_id) is not None for attempt in attempts] == [
        True,
        True,
        True,
        False,
    ]


def test_a_failed_try_is_logged_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(silences=1)
    scene.add()
    scene.send_due()
    assert "cannot report ref: no answer" in caplog.text

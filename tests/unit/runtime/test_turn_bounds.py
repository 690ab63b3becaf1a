"""What bounds the work of a turn: clean-ups that hang, redeliveries at once, quotas."""

from __future__ import annotations

import pytest

from perago.domain.errors import OrchestratorUnavailableError
from perago.runtime.inputs import Heard
from perago.runtime.messages import Unfit
from tests.unit.runtime.turn_scene import LEASE, TurnScene, polled, snapshot_of


def test_a_slot_whose_clean_up_takes_long_is_not_counted_on() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.decide()
    assert scene.turn.room == 1
    scene.receive(polled("b"))
    scene.step(after=4.0)
    assert scene.waiting() == ["b"]

    scene.step(after=1.5)

    assert scene.handed_back == ["b/1"]
    assert scene.turn.room == 0, "nothing is polled for it until it is free"


def test_an_executor_that_never_ends_its_clean_up_is_replaced_and_its_report_goes_on() -> None:
    scene = TurnScene()
    scene.receive(polled("a"))
    scene.decide()
    scene.step(after=1799.0)
    assert scene.killed == []
    scene.step(after=1.0)
    assert scene.killed == [0]
    scene.die()
    scene.answer_report()
    assert scene.turn.reports.is_empty
    assert not scene.turn.is_busy


def test_one_executor_that_cannot_be_rebuilt_does_not_end_a_worker_that_works() -> None:
    scene = TurnScene(2)
    scene.receive(polled("a"))
    scene.die(slot=1)
    scene.pass_time(1.0, by=0.1)
    scene.step(Heard(slot=1, message=Unfit(reason="a module is written just now")))
    assert scene.killed == [1]
    assert scene.running() == ["a", ""]


def test_a_delivery_that_must_wait_for_the_old_body_is_not_polled_for_at_once() -> None:
    scene = TurnScene(2)
    scene.receive(polled("a", scheduled_time=1))
    scene.answer_polls()
    scene.pass_time(1.0)
    scene.answer_polls()
    scene.receive(polled("a", 2, scheduled_time=2))
    assert scene.handed_back == ["a/2"]
    before = len(scene.polls)
    scene.step(after=0.01)
    assert len(scene.polls) == before
    scene.step(after=0.3)
    assert len(scene.polls) > before


def test_a_dead_worker_s_report_is_not_sent_for_a_body_that_runs_here() -> None:
    scene = TurnScene(2)
    scene.turn.fail_for_dead_worker(polled("a").attempt, scene.now)
    scene.step()
    scene.receive(polled("a", 2))
    scene.receive(polled("a", 3))
    assert scene.running().count("a") == 1
    scene.pass_time(101)
    assert [report.attempt.poll_count for report in scene.reports] == [1]


@pytest.mark.parametrize("lease", [12.0, 30.0, LEASE])
def test_an_outage_of_half_the_lease_at_the_report_ends_before_the_lease(lease: float) -> None:
    scene = TurnScene()
    scene.receive(polled("a", lease_seconds=lease))
    scene.decide()
    began = scene.now
    while scene.now < began + lease / 2:
        if scene.reports:
            scene.fail_report(OrchestratorUnavailableError("no answer"))
        scene.step(after=0.1)
    while not scene.reports:
        scene.step(after=0.1)
    assert scene.now - began < lease * 2 / 3
    assert snapshot_of(scene.reports[0].attempt).poll_count == 1

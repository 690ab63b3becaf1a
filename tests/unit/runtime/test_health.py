"""Alive while the loops turn; ready while work can be taken and done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perago.runtime.health import (
    HealthBoard,
    HealthLimits,
    HealthState,
    decide_liveness,
    decide_readiness,
)
from perago.testing import FakeClock

LIMITS = HealthLimits(start=100, turn=10, poller=20, unanswered=30)
NOW = 1000.0
WELL = HealthState(
    turned_at=NOW - 1,
    poller_turned_at=NOW - 1,
    answered_at=NOW - 1,
    poll_error=None,
    executors=2,
    executors_alive=2,
    executors_ready=2,
    executors_busy=1,
    crash_looping=0,
    is_draining=False,
)


def test_a_worker_that_turns_and_polls_is_well() -> None:
    assert decide_liveness(WELL, NOW, LIMITS).is_well
    assert decide_readiness(WELL, NOW, LIMITS).is_well


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (replace(WELL, turned_at=NOW - 11), "the supervisor's loop has not turned for 11 s"),
        (replace(WELL, poller_turned_at=NOW - 21), "the poll loop has not turned for 21 s"),
    ],
)
def test_a_wedged_loop_is_neither_alive_nor_ready(state: HealthState, reason: str) -> None:
    assert decide_liveness(state, NOW, LIMITS).reasons == (reason,)
    assert reason in decide_readiness(state, NOW, LIMITS).reasons


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (replace(WELL, is_draining=True), "it is draining and takes no more work"),
        (replace(WELL, answered_at=None), "no poll was answered yet"),
        (
            replace(WELL, answered_at=None, poll_error="refused"),
            "no poll was answered yet: refused",
        ),
        (
            replace(WELL, answered_at=NOW - 31, poll_error="refused"),
            "no poll was answered for 31 s: refused",
        ),
        (replace(WELL, executors_ready=0), "none of 2 executors is ready"),
        (replace(WELL, crash_looping=1), "1 of 2 executors keep dying"),
    ],
)
def test_what_cannot_take_work_is_alive_but_not_ready(state: HealthState, reason: str) -> None:
    assert decide_liveness(state, NOW, LIMITS).is_well
    assert decide_readiness(state, NOW, LIMITS).reasons == (reason,)


def test_at_its_limits_a_worker_is_still_well() -> None:
    turning = replace(WELL, turned_at=NOW - 10, poller_turned_at=NOW - 20)
    silent = replace(WELL, poll_error="refused", answered_at=NOW - 30)

    assert decide_liveness(turning, NOW, LIMITS).is_well
    assert decide_readiness(silent, NOW, LIMITS).is_well


def test_probes_wait_as_long_as_the_documentation_says() -> None:
    assert HealthLimits() == HealthLimits(start=120, turn=30, poller=90, unanswered=30)


def test_a_drain_does_not_poll_and_lives() -> None:
    state = replace(WELL, is_draining=True, poller_turned_at=0.0)

    assert decide_liveness(state, NOW, LIMITS).is_well


def test_one_failed_poll_and_a_full_worker_are_no_trouble() -> None:
    failing = replace(WELL, poll_error="refused", answered_at=NOW - 29)
    full = replace(WELL, answered_at=NOW - 500)  # no slot was free: nothing was asked

    assert decide_readiness(failing, NOW, LIMITS).is_well
    assert decide_readiness(full, NOW, LIMITS).is_well


def test_a_worker_that_never_begins_is_not_alive_for_ever() -> None:
    clock = FakeClock()
    board = HealthBoard(clock, LIMITS)
    assert board.liveness().is_well
    assert not board.readiness().is_well

    clock.advance(100)
    assert board.liveness().is_well
    clock.advance(1)

    assert board.liveness().reasons == ("the supervisor has not begun after 101 s",)


def test_a_worker_that_waits_for_its_orchestrator_lives_and_says_so() -> None:
    clock = FakeClock()
    board = HealthBoard(clock, LIMITS)
    for _ in range(3):
        clock.advance(LIMITS.start)
        board.wait_for("the server does not answer")

    assert board.liveness().is_well
    assert board.readiness().reasons == ("the worker is starting: the server does not answer",)

    clock.advance(LIMITS.start + 1)  # it no longer says that it waits
    assert not board.liveness().is_well


def test_an_answer_shows_ages_and_reasons() -> None:
    clock = FakeClock()
    board = HealthBoard(clock, LIMITS)
    board.state = replace(WELL, turned_at=0, poller_turned_at=0, answered_at=None)
    clock.advance(12.34567)

    answer = board.describe(board.readiness())

    assert answer["ok"] is False
    assert answer["reasons"] == [
        "the supervisor's loop has not turned for 12 s",
        "no poll was answered yet",
    ]
    worker = answer["worker"]
    assert isinstance(worker, dict)
    assert worker["turned_seconds_ago"] == 12.346
    assert worker["answered_seconds_ago"] is None
    assert worker["executors_busy"] == 1

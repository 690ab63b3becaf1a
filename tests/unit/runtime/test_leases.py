"""When to beat, when to give up, how fast to restart."""

from __future__ import annotations

import math

import pytest

from perago.runtime.leases import (
    LEASE_LOST,
    LeaseAction,
    LeaseState,
    decide_lease,
    next_due,
    postpone_beat,
    renew_lease,
    respawn_delay,
    start_lease,
)


def lease(*, timeout: float | None = None, heartbeat: float = 5.0) -> LeaseState:
    return start_lease(
        polled_at=100.0, lease_seconds=60.0, heartbeat_seconds=heartbeat, timeout_seconds=timeout
    )


@pytest.mark.parametrize(
    ("now", "action"),
    [
        (100.0, LeaseAction.WAIT),
        (104.9, LeaseAction.WAIT),
        (105.0, LeaseAction.BEAT),
        (159.9, LeaseAction.BEAT),
        (160.0, LeaseAction.GIVE_UP),
        (1000.0, LeaseAction.GIVE_UP),
    ],
)
def test_a_lease_is_renewed_in_time_and_given_up_when_nothing_succeeded(
    now: float, action: LeaseAction
) -> None:
    assert decide_lease(lease(), now) is action


def test_the_overall_time_is_respected_whatever_the_lease_says() -> None:
    renewed = renew_lease(lease(timeout=30.0), beat_began=129.0)

    assert decide_lease(renewed, 130.0) is LeaseAction.TIME_OUT


def test_the_overall_time_ends_an_attempt_no_sooner() -> None:
    assert decide_lease(lease(timeout=30.0), 129.9) is LeaseAction.BEAT
    assert decide_lease(lease(timeout=30.0), 130.0) is LeaseAction.TIME_OUT


def test_a_lease_of_no_seconds_never_ends_and_is_kept_by_heartbeats() -> None:
    endless = start_lease(
        polled_at=100.0, lease_seconds=0.0, heartbeat_seconds=5.0, timeout_seconds=None
    )

    assert endless.next_beat == 105.0
    assert decide_lease(endless, 1e9) is LeaseAction.BEAT
    short = start_lease(
        polled_at=100.0, lease_seconds=0.9, heartbeat_seconds=5.0, timeout_seconds=None
    )
    assert decide_lease(short, 100.9) is LeaseAction.GIVE_UP


def test_a_long_heartbeat_is_shortened_so_that_a_failed_beat_costs_no_lease() -> None:
    assert lease(heartbeat=300.0).next_beat == 120.0


def test_a_renewal_counts_from_before_the_beat_was_sent() -> None:
    renewed = renew_lease(lease(), beat_began=110.0)

    assert (renewed.deadline, renewed.next_beat) == (170.0, 115.0)


def test_a_failed_beat_moves_the_next_try_and_not_the_deadline() -> None:
    postponed = postpone_beat(lease(), now=105.0)

    assert (postponed.deadline, postponed.next_beat) == (160.0, 107.5)


def test_next_due_is_the_earliest_of_all() -> None:
    assert next_due(lease()) == 105.0
    assert next_due(lease(timeout=2.0)) == 102.0


def test_a_crash_loop_backs_off_to_a_bound() -> None:
    delays = [respawn_delay(deaths) for deaths in range(20)]

    assert delays[:5] == pytest.approx([0.1, 0.1, 0.2, 0.4, 0.8])
    assert delays == sorted(delays)
    assert delays[-1] == 30.0


def test_no_beat_extends_the_overall_time() -> None:
    late = renew_lease(lease(timeout=70.0), beat_began=165.0)
    assert late.deadline == 225.0
    assert late.safe_until == 170.0
    assert lease(timeout=70.0).safe_until == 160.0
    assert lease().safe_until == 160.0


@pytest.mark.parametrize(("seconds", "deadline"), [(0.0, math.inf), (-1.0, math.inf), (0.5, 100.5)])
def test_a_lease_of_no_seconds_never_runs_out(seconds: float, deadline: float) -> None:
    started = start_lease(
        polled_at=100.0, lease_seconds=seconds, heartbeat_seconds=5.0, timeout_seconds=None
    )
    assert started.deadline == deadline


def test_a_beat_that_is_under_way_is_not_due() -> None:
    assert next_due(lease(), beats=False) == 160.0
    assert next_due(lease(timeout=30.0), beats=False) == 130.0


def test_what_was_never_dead_is_replaced_as_after_its_first_death() -> None:
    assert respawn_delay(0) == respawn_delay(1) == 0.1
    assert respawn_delay(2) == 0.2


def test_a_deadline_that_is_lost_is_before_all_others() -> None:
    assert LEASE_LOST == -1.0

"""When to beat, when to give up, how fast to restart."""

from __future__ import annotations

import pytest

from perago.runtime.leases import (
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

    assert delays[1] == pytest.approx(0.1)
    assert delays == sorted(delays)
    assert delays[-1] == 30.0


def test_no_beat_extends_the_overall_time() -> None:
    late = renew_lease(lease(timeout=70.0), beat_began=165.0)
    assert late.deadline == 225.0
    assert late.safe_until == 170.0
    assert lease(timeout=70.0).safe_until == 160.0
    assert lease().safe_until == 160.0

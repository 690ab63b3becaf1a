"""The arithmetic of leases and restarts, pure: the supervisor's loop only carries it out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum, auto

LEASE_LOST = -1.0
"""The deadline of an attempt that is cancelled."""

_BEATS_PER_LEASE = 3
"""A lease must survive a failed beat: beat at least this often within it."""

_FIRST_RESPAWN_SECONDS = 0.1
_LONGEST_RESPAWN_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseState:
    """A lease on `Clock.elapsed`."""

    lease_seconds: float
    beat_seconds: float
    deadline: float
    next_beat: float
    total_deadline: float | None

    @property
    def safe_until(self) -> float:
        """Until when nobody else is given the attempt's work, whatever happens to the heartbeats.

        No beat extends the overall time.
        """
        return min(self.deadline, self.total_deadline or self.deadline)


class LeaseAction(Enum):
    """What a lease asks of the supervisor now."""

    WAIT = auto()
    BEAT = auto()
    GIVE_UP = auto()
    """Nothing succeeded for the whole lease: it is lost."""
    TIME_OUT = auto()
    """The attempt used up its overall time."""


def start_lease(
    *,
    polled_at: float,
    lease_seconds: float,
    heartbeat_seconds: float,
    timeout_seconds: float | None,
) -> LeaseState:
    """The lease of an attempt that was asked for at `polled_at`; 0 seconds is no time-out."""
    if lease_seconds <= 0:
        lease_seconds = math.inf
    beat = min(heartbeat_seconds, lease_seconds / _BEATS_PER_LEASE)
    return LeaseState(
        lease_seconds=lease_seconds,
        beat_seconds=beat,
        deadline=polled_at + lease_seconds,
        next_beat=polled_at + beat,
        total_deadline=None if timeout_seconds is None else polled_at + timeout_seconds,
    )


def decide_lease(lease: LeaseState, now: float) -> LeaseAction:
    """What is due."""
    if lease.total_deadline is not None and now >= lease.total_deadline:
        return LeaseAction.TIME_OUT
    if now >= lease.deadline:
        return LeaseAction.GIVE_UP
    return LeaseAction.BEAT if now >= lease.next_beat else LeaseAction.WAIT


def renew_lease(lease: LeaseState, *, beat_began: float) -> LeaseState:
    """After a beat that was answered and read back; counted from before it was sent."""
    return replace(
        lease,
        deadline=beat_began + lease.lease_seconds,
        next_beat=beat_began + lease.beat_seconds,
    )


def postpone_beat(lease: LeaseState, *, now: float) -> LeaseState:
    """After a beat that failed: try again soon; the deadline stays."""
    return replace(lease, next_beat=now + lease.beat_seconds / 2)


def next_due(lease: LeaseState, *, beats: bool = True) -> float:
    """When the lease must be looked at again; `beats`: unless a beat is under way."""
    dues = [lease.deadline]
    if beats:
        dues.append(lease.next_beat)
    if lease.total_deadline is not None:
        dues.append(lease.total_deadline)
    return min(dues)


def respawn_delay(deaths_in_a_row: int) -> float:
    """How long to wait before an executor is replaced: a crash loop must not spin."""
    return min(
        _FIRST_RESPAWN_SECONDS * 2.0 ** max(0, deaths_in_a_row - 1), _LONGEST_RESPAWN_SECONDS
    )

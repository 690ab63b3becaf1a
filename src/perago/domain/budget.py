"""How long a publication may take. A time bound, never a quota of objects or bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from perago.domain.errors import DeclarationError

DEFAULT_MERGE_TIMEOUT_SECONDS = 60.0
"""The bound on a publish call of a task that declares no `PublishBudget`."""

DEFAULT_HEARTBEAT_SECONDS = 5.0
"""How often a lease is renewed when no budget says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishBudget:
    """Seen merge times and reserves, from which the time-outs of a publication follow."""

    observed_merge_p99_seconds: float
    safety_factor: float
    conductor_completion_reserve_seconds: float
    heartbeat_interval_seconds: float
    shutdown_grace_seconds: float
    lakefs_merge_timeout_seconds: float | None = None

    def __post_init__(self) -> None:
        positive = {
            "observed_merge_p99_seconds": self.observed_merge_p99_seconds,
            "heartbeat_interval_seconds": self.heartbeat_interval_seconds,
        }
        if self.lakefs_merge_timeout_seconds is not None:
            positive["lakefs_merge_timeout_seconds"] = self.lakefs_merge_timeout_seconds
        not_negative = {
            "conductor_completion_reserve_seconds": self.conductor_completion_reserve_seconds,
            "shutdown_grace_seconds": self.shutdown_grace_seconds,
        }
        for name, value in positive.items():
            if not (math.isfinite(value) and value > 0):
                raise DeclarationError(f"PublishBudget.{name} must be above 0, not {value}")
        for name, value in not_negative.items():
            if not (math.isfinite(value) and value >= 0):
                raise DeclarationError(f"PublishBudget.{name} must not be negative, is {value}")
        if not (math.isfinite(self.safety_factor) and self.safety_factor >= 1):
            raise DeclarationError(
                f"PublishBudget.safety_factor must be at least 1, not {self.safety_factor}"
            )
        if not math.isfinite(self.observed_merge_p99_seconds * self.safety_factor):
            raise DeclarationError(
                "PublishBudget.observed_merge_p99_seconds * safety_factor is out of all bounds"
            )

    @property
    def merge_timeout_seconds(self) -> float:
        """The bound on one publish call."""
        if self.lakefs_merge_timeout_seconds is not None:
            return self.lakefs_merge_timeout_seconds
        return float(math.ceil(self.observed_merge_p99_seconds * self.safety_factor))

    @property
    def total_seconds(self) -> float:
        """The whole budget: merge, completion report, one heartbeat, shutdown."""
        return (
            self.merge_timeout_seconds
            + self.conductor_completion_reserve_seconds
            + self.heartbeat_interval_seconds
            + self.shutdown_grace_seconds
        )


def merge_timeout_of(budget: PublishBudget | None) -> float:
    """The bound on one publish call, declared or default."""
    return DEFAULT_MERGE_TIMEOUT_SECONDS if budget is None else budget.merge_timeout_seconds


def heartbeat_interval_of(budget: PublishBudget | None) -> float:
    """How often the lease is renewed, declared or default."""
    return DEFAULT_HEARTBEAT_SECONDS if budget is None else budget.heartbeat_interval_seconds


def explain_unpublishable_lease(
    response_timeout_seconds: float, budget: PublishBudget | None
) -> str | None:
    """Say why no attempt under this lease could ever publish, or None when one could."""
    needed = merge_timeout_of(budget) + heartbeat_interval_of(budget)
    if response_timeout_seconds > needed:
        return None
    return (
        f"responseTimeoutSeconds is {response_timeout_seconds:g}, which does not exceed merge "
        f"time-out + heartbeat interval ({needed:g} s): no attempt could ever publish"
    )


def explain_short_lease(
    response_timeout_seconds: float, budget: PublishBudget | None
) -> str | None:
    """Say that a lease is shorter than the publish budget (a warning), or None when it is not."""
    if budget is None or response_timeout_seconds >= budget.total_seconds:
        return None
    return (
        f"responseTimeoutSeconds is {response_timeout_seconds:g}, shorter than the publish budget "
        f"of {budget.total_seconds:g} s"
    )


def explain_late_publish(
    *, now: float, lease_deadline: float, merge_timeout_seconds: float
) -> str | None:
    """Say why a publish call may no longer begin, or None when it will end within the lease.

    Both times come from a clock that goes on while the machine is suspended.
    """
    left = lease_deadline - now
    if left > merge_timeout_seconds:
        return None
    if left <= 0:
        return f"the lease ran out {now - lease_deadline:.1f} s ago"
    return (
        f"the lease has {left:.1f} s left, and a publish call may take {merge_timeout_seconds:g} s"
    )

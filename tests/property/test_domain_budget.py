"""Laws of the publish budget and the lease."""

import math

from hypothesis import given
from hypothesis import strategies as st

from perago.domain.budget import (
    PublishBudget,
    explain_late_publish,
    explain_short_lease,
    explain_unpublishable_lease,
    heartbeat_interval_of,
    merge_timeout_of,
)
from perago.testing.strategies import publish_budgets

seconds = st.floats(-1_000, 1_000_000)


@given(publish_budgets())
def test_the_merge_time_out_is_declared_or_the_seen_time_rounded_up(budget: PublishBudget) -> None:
    if budget.lakefs_merge_timeout_seconds is not None:
        assert budget.merge_timeout_seconds == budget.lakefs_merge_timeout_seconds
    else:
        seen = budget.observed_merge_p99_seconds * budget.safety_factor
        assert seen <= budget.merge_timeout_seconds < seen + 1
        assert budget.merge_timeout_seconds.is_integer()
        assert budget.merge_timeout_seconds >= 1


@given(publish_budgets())
def test_the_budget_is_the_sum_of_its_parts(budget: PublishBudget) -> None:
    parts = (
        budget.merge_timeout_seconds,
        budget.conductor_completion_reserve_seconds,
        budget.heartbeat_interval_seconds,
        budget.shutdown_grace_seconds,
    )
    assert math.isclose(budget.total_seconds, math.fsum(parts))
    assert budget.total_seconds >= max(parts)


@given(st.none() | publish_budgets(), seconds)
def test_a_lease_without_a_warning_can_publish_or_leaves_no_reserve(
    budget: PublishBudget | None, lease: float
) -> None:
    needed = merge_timeout_of(budget) + heartbeat_interval_of(budget)
    assert (explain_unpublishable_lease(lease, budget) is None) is (lease > needed)
    if budget is None:
        assert explain_short_lease(lease, budget) is None
    else:
        assert (explain_short_lease(lease, budget) is None) is (lease >= budget.total_seconds)


@given(publish_budgets(), st.floats(0.001, 1_000))
def test_a_fresh_publishable_lease_lets_an_attempt_publish_between_two_heartbeats(
    budget: PublishBudget, spare: float
) -> None:
    lease = budget.merge_timeout_seconds + budget.heartbeat_interval_seconds + spare
    assert explain_unpublishable_lease(lease, budget) is None
    late = explain_late_publish(
        now=budget.heartbeat_interval_seconds,
        lease_deadline=lease,
        merge_timeout_seconds=budget.merge_timeout_seconds,
    )
    assert late is None


@given(seconds, seconds, st.floats(0.001, 10_000), st.floats(0, 1_000))
def test_what_is_too_late_now_is_too_late_later(
    now: float, deadline: float, timeout: float, later: float
) -> None:
    def may_begin(moment: float) -> bool:
        reason = explain_late_publish(
            now=moment, lease_deadline=deadline, merge_timeout_seconds=timeout
        )
        return reason is None

    assert may_begin(now) or not may_begin(now + later)
    assert not may_begin(deadline)

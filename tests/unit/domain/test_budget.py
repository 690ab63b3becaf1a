"""The arithmetic of time-outs and leases."""

import math
from dataclasses import replace

import pytest

from perago.domain.budget import (
    DEFAULT_HEARTBEAT_SECONDS,
    DEFAULT_MERGE_TIMEOUT_SECONDS,
    PublishBudget,
    explain_late_publish,
    explain_short_lease,
    explain_unpublishable_lease,
    heartbeat_interval_of,
    merge_timeout_of,
)
from perago.domain.errors import DeclarationError

BUDGET = PublishBudget(
    observed_merge_p99_seconds=2.5,
    safety_factor=3,
    conductor_completion_reserve_seconds=4,
    heartbeat_interval_seconds=5,
    shutdown_grace_seconds=6,
)


@pytest.mark.parametrize(
    ("budget", "merge_timeout", "total"),
    [
        pytest.param(BUDGET, 8, 8 + 4 + 5 + 6, id="rounded up: ceil(2.5 * 3)"),
        pytest.param(
            replace(BUDGET, observed_merge_p99_seconds=2), 6, 6 + 4 + 5 + 6, id="already whole"
        ),
        pytest.param(
            replace(BUDGET, observed_merge_p99_seconds=0.01, safety_factor=1),
            1,
            1 + 4 + 5 + 6,
            id="never below a second",
        ),
        pytest.param(
            replace(BUDGET, lakefs_merge_timeout_seconds=0.5),
            0.5,
            0.5 + 4 + 5 + 6,
            id="declared: taken as it is",
        ),
        pytest.param(
            replace(BUDGET, conductor_completion_reserve_seconds=0, shutdown_grace_seconds=0),
            8,
            8 + 5,
            id="no reserves",
        ),
    ],
)
def test_budget(budget: PublishBudget, merge_timeout: float, total: float) -> None:
    assert budget.merge_timeout_seconds == merge_timeout_of(budget) == merge_timeout
    assert budget.total_seconds == total
    assert heartbeat_interval_of(budget) == 5


def test_defaults_without_a_budget() -> None:
    assert merge_timeout_of(None) == DEFAULT_MERGE_TIMEOUT_SECONDS
    assert heartbeat_interval_of(None) == DEFAULT_HEARTBEAT_SECONDS


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("observed_merge_p99_seconds", (0, -1, math.nan, math.inf)),
        ("heartbeat_interval_seconds", (0, -1, math.nan, math.inf)),
        ("lakefs_merge_timeout_seconds", (0, -1, math.nan, math.inf)),
        ("conductor_completion_reserve_seconds", (-0.1, math.nan, math.inf)),
        ("shutdown_grace_seconds", (-0.1, math.nan, math.inf)),
        ("safety_factor", (0.99, 0, -1, math.nan, math.inf)),
    ],
)
def test_impossible_budgets_are_refused_by_name(field: str, bad: tuple[float, ...]) -> None:
    possible = {
        "observed_merge_p99_seconds": 1.0,
        "safety_factor": 1.0,
        "conductor_completion_reserve_seconds": 1.0,
        "heartbeat_interval_seconds": 1.0,
        "shutdown_grace_seconds": 1.0,
    }
    for value in bad:
        with pytest.raises(DeclarationError, match=rf"PublishBudget\.{field}"):
            PublishBudget(**{**possible, field: value})


def test_a_product_that_no_number_can_hold_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"observed_merge_p99_seconds \* safety_factor"):
        replace(BUDGET, observed_merge_p99_seconds=1e300, safety_factor=1e300)


@pytest.mark.parametrize(
    ("lease", "budget", "publishable"),
    [
        pytest.param(8 + 5, BUDGET, False, id="equal is not enough"),
        pytest.param(8 + 5 + 0.1, BUDGET, True, id="just above"),
        pytest.param(1, BUDGET, False, id="far below"),
        pytest.param(60 + 5, None, False, id="default: equal is not enough"),
        pytest.param(60 + 6, None, True, id="default: just above"),
        pytest.param(math.nan, None, False, id="not a number"),
    ],
)
def test_leases_under_which_nothing_could_publish(
    lease: float, budget: PublishBudget | None, publishable: bool
) -> None:
    reason = explain_unpublishable_lease(lease, budget)
    assert (reason is None) is publishable
    if reason is not None:
        assert "responseTimeoutSeconds" in reason


@pytest.mark.parametrize(
    ("lease", "budget", "warned"),
    [
        pytest.param(23, BUDGET, False, id="as long as the budget"),
        pytest.param(22.9, BUDGET, True, id="shorter than the budget"),
        pytest.param(1, None, False, id="no budget to compare with"),
    ],
)
def test_leases_shorter_than_the_budget(
    lease: float, budget: PublishBudget | None, warned: bool
) -> None:
    assert (explain_short_lease(lease, budget) is not None) is warned


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        pytest.param(89.9, None, id="ends within the lease"),
        pytest.param(90.0, "10.0 s left", id="would end with the lease"),
        pytest.param(99.0, "1.0 s left", id="would outlive the lease"),
        pytest.param(100.0, "ran out 0.0 s ago", id="ran out this moment"),
        pytest.param(107.5, "ran out 7.5 s ago", id="ran out while the worker was paused"),
        pytest.param(math.nan, "left", id="not a number"),
    ],
)
def test_a_publish_call_begins_only_when_it_can_end(now: float, reason: str | None) -> None:
    answer = explain_late_publish(now=now, lease_deadline=100, merge_timeout_seconds=10)
    if reason is None:
        assert answer is None
    else:
        assert answer is not None
        assert reason in answer

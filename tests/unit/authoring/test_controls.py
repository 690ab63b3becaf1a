"""Retry, time-out and limit declarations."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from perago import Limits, RetryPolicy, TaskControls, TimeoutPolicy
from perago.domain.budget import explain_unpublishable_lease
from perago.domain.errors import DeclarationError


def test_the_defaults_let_a_task_publish() -> None:
    controls = TaskControls()
    assert explain_unpublishable_lease(controls.timeout.response_seconds, None) is None


@pytest.mark.parametrize(
    ("declare", "named"),
    [
        (lambda: RetryPolicy(count=-1), "RetryPolicy.count"),
        (lambda: RetryPolicy(count=True), "RetryPolicy.count"),
        (lambda: RetryPolicy(count=cast(int, 1.5)), "RetryPolicy.count"),
        (lambda: RetryPolicy(delay_seconds=-1), "RetryPolicy.delay_seconds"),
        (lambda: RetryPolicy(backoff_scale_factor=0), "RetryPolicy.backoff_scale_factor"),
        (lambda: RetryPolicy(logic=cast(Any, "SOMETIMES")), "RetryPolicy.logic"),
        (lambda: TimeoutPolicy(response_seconds=0), "TimeoutPolicy.response_seconds"),
        (lambda: TimeoutPolicy(total_seconds=0), "TimeoutPolicy.total_seconds"),
        (lambda: TimeoutPolicy(poll_seconds=0), "TimeoutPolicy.poll_seconds"),
        (lambda: TimeoutPolicy(policy=cast(Any, "SHRUG")), "TimeoutPolicy.policy"),
        (lambda: Limits(concurrent=0), "Limits.concurrent"),
        (lambda: Limits(rate_per_frequency=0, frequency_seconds=1), "Limits.rate_per_frequency"),
    ],
)
def test_a_wrong_value_is_refused_by_name(declare: Callable[[], object], named: str) -> None:
    with pytest.raises(DeclarationError, match=named):
        declare()


def test_a_total_below_the_lease_is_refused_as_conductor_would() -> None:
    with pytest.raises(DeclarationError, match="total_seconds is 60, less than response_seconds"):
        TimeoutPolicy(response_seconds=120, total_seconds=60)
    assert TimeoutPolicy(response_seconds=120, total_seconds=120).total_seconds == 120


@pytest.mark.parametrize("limits", [{"rate_per_frequency": 10}, {"frequency_seconds": 60}])
def test_half_a_rate_limit_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(DeclarationError, match="both rate_per_frequency and frequency_seconds"):
        Limits(**limits)

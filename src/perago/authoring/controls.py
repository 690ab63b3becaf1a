"""How the orchestrator retries, times out and limits a task.

Invariant: what is accepted here is accepted by Conductor, so a declaration that imports can be
registered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from perago.domain.budget import PublishBudget
from perago.domain.errors import DeclarationError

RetryLogic = Literal["FIXED", "LINEAR_BACKOFF", "EXPONENTIAL_BACKOFF"]
TimeoutAction = Literal["RETRY", "TIME_OUT_WF", "ALERT_ONLY"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, and after which delay, a failed attempt is tried again."""

    count: int = 3
    delay_seconds: int = 5
    logic: RetryLogic = "FIXED"
    backoff_scale_factor: int = 1

    def __post_init__(self) -> None:
        _check_whole("RetryPolicy.count", self.count, least=0)
        _check_whole("RetryPolicy.delay_seconds", self.delay_seconds, least=0)
        _check_choice("RetryPolicy.logic", self.logic, get_args(RetryLogic))
        _check_whole("RetryPolicy.backoff_scale_factor", self.backoff_scale_factor, least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutPolicy:
    """How long the orchestrator waits for an attempt.

    `response_seconds` is the lease: it runs out when no heartbeat arrives for that long, whatever
    the length of the attempt. `total_seconds` bounds the whole attempt, `poll_seconds` the wait
    for a worker; None is no bound. `policy` says what a passed `total_seconds` leads to.
    """

    response_seconds: int = 120
    total_seconds: int | None = None
    poll_seconds: int | None = None
    policy: TimeoutAction = "RETRY"

    def __post_init__(self) -> None:
        _check_whole("TimeoutPolicy.response_seconds", self.response_seconds, least=1)
        if self.total_seconds is not None:
            _check_whole("TimeoutPolicy.total_seconds", self.total_seconds, least=1)
        if self.poll_seconds is not None:
            _check_whole("TimeoutPolicy.poll_seconds", self.poll_seconds, least=1)
        _check_choice("TimeoutPolicy.policy", self.policy, get_args(TimeoutAction))
        if self.total_seconds is not None and self.total_seconds < self.response_seconds:
            raise DeclarationError(
                f"TimeoutPolicy.total_seconds is {self.total_seconds}, less than response_seconds "
                f"({self.response_seconds}); Conductor refuses such a task",
                hint="raise total_seconds, or leave it out for no bound",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many attempts run at once, and how many start per time window; None is no limit."""

    concurrent: int | None = None
    rate_per_frequency: int | None = None
    frequency_seconds: int | None = None

    def __post_init__(self) -> None:
        for name, value in (
            ("concurrent", self.concurrent),
            ("rate_per_frequency", self.rate_per_frequency),
            ("frequency_seconds", self.frequency_seconds),
        ):
            if value is not None:
                _check_whole(f"Limits.{name}", value, least=1)
        if (self.rate_per_frequency is None) != (self.frequency_seconds is None):
            raise DeclarationError(
                "Limits needs both rate_per_frequency and frequency_seconds, or neither",
                hint="Limits(rate_per_frequency=10, frequency_seconds=60) is ten starts a minute",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskControls:
    """Everything about running a task that is not its body."""

    retry: RetryPolicy = field(default_factory=RetryPolicy)
    timeout: TimeoutPolicy = field(default_factory=TimeoutPolicy)
    limits: Limits = field(default_factory=Limits)
    publish_budget: PublishBudget | None = None


def _check_whole(name: str, value: object, *, least: int) -> None:
    # By type, because a bool is an int to Python and a mistake here.
    if type(value) is not int or value < least:
        raise DeclarationError(f"{name} must be a whole number of at least {least}, not {value!r}")


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise DeclarationError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")

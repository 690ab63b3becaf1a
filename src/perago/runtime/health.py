"""Whether a worker is alive and ready, decided from what its supervisor last said of itself.

Invariant: the deciders are pure and fail closed. A supervisor that stopped telling is not alive,
whatever it said last.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from perago.domain.outcome import JsonObject
from perago.ports import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthState:
    """What a supervisor says of itself once each turn. Times are on `Clock.elapsed`."""

    turned_at: float
    """When the supervisor's loop began this turn."""
    poller_turned_at: float
    """When the poll loop last came round: it polled, was answered, or had no free slot to fill."""
    answered_at: float | None
    """When a poll was last answered, with tasks or without; None before the first."""
    poll_error: str | None
    """Why the last poll failed; None when it was answered."""
    executors: int
    executors_alive: int
    executors_ready: int
    executors_busy: int
    crash_looping: int
    """How many executors died several times in a row and wait to be started again."""
    is_draining: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLimits:
    """How long each thing may take before the worker counts as unwell, in seconds."""

    start: float = 120.0
    """Until the first turn: the executors import what the tasks import."""
    turn: float = 30.0
    poller: float = 90.0
    """Longer than a poll may wait for an answer."""
    unanswered: float = 30.0
    """How long polls may fail before the worker is not ready."""


DEFAULT_LIMITS = HealthLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Well, or why not."""

    reasons: tuple[str, ...]

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong."""
        return not self.reasons


def decide_liveness(state: HealthState, now: float, limits: HealthLimits) -> Verdict:
    """Whether the loops still turn. A drain is life: it only does not poll any more."""
    reasons: list[str] = []
    silent = now - state.turned_at
    if silent > limits.turn:
        reasons.append(f"the supervisor's loop has not turned for {silent:.0f} s")
    silent = now - state.poller_turned_at
    if not state.is_draining and silent > limits.poller:
        reasons.append(f"the poll loop has not turned for {silent:.0f} s")
    return Verdict(reasons=tuple(reasons))


def decide_readiness(state: HealthState, now: float, limits: HealthLimits) -> Verdict:
    """Whether it takes work and can do it; what is not alive is not ready either."""
    reasons = list(decide_liveness(state, now, limits).reasons)
    if state.is_draining:
        reasons.append("it is draining and takes no more work")
    if state.answered_at is None:
        why = f": {state.poll_error}" if state.poll_error else ""
        reasons.append(f"no poll was answered yet{why}")
    elif state.poll_error is not None and now - state.answered_at > limits.unanswered:
        silent = now - state.answered_at
        reasons.append(f"no poll was answered for {silent:.0f} s: {state.poll_error}")
    if state.executors_ready == 0:
        reasons.append(f"none of {state.executors} executors is ready")
    if state.crash_looping:
        reasons.append(f"{state.crash_looping} of {state.executors} executors keep dying")
    return Verdict(reasons=tuple(reasons))


class HealthBoard:
    """Where the supervisor puts its state, and others read it: one assignment, no lock."""

    def __init__(self, clock: Clock, limits: HealthLimits = DEFAULT_LIMITS) -> None:
        self._clock = clock
        self._limits = limits
        self._began = clock.elapsed()
        self._waits_for: str | None = None
        self.state: HealthState | None = None

    def wait_for(self, what: str) -> None:
        """Say that the worker lives but cannot begin yet: a restart would not help. Say it again
        for as long as that lasts.
        """
        self._began, self._waits_for = self._clock.elapsed(), what

    def liveness(self) -> Verdict:
        """Whether the worker is alive now."""
        state = self.state
        if state is None:
            waited = self._clock.elapsed() - self._began
            if waited <= self._limits.start:
                return Verdict(reasons=())
            return Verdict(reasons=(f"the supervisor has not begun after {waited:.0f} s",))
        return decide_liveness(state, self._clock.elapsed(), self._limits)

    def readiness(self) -> Verdict:
        """Whether the worker is ready now."""
        state = self.state
        if state is None:
            waits = f": {self._waits_for}" if self._waits_for else ""
            return Verdict(reasons=(f"the worker is starting{waits}",))
        return decide_readiness(state, self._clock.elapsed(), self._limits)

    def describe(self, verdict: Verdict) -> JsonObject:
        """A verdict as the answer to a probe: ages instead of times, for people to read."""
        answer: JsonObject = {"ok": verdict.is_well, "reasons": list(verdict.reasons)}
        state = self.state
        if state is not None:
            now = self._clock.elapsed()
            shown = asdict(state)
            for name in ("turned_at", "poller_turned_at", "answered_at"):
                at = shown.pop(name)
                age = None if at is None else round(now - at, 3)
                shown[f"{name.removesuffix('_at')}_seconds_ago"] = age
            answer["worker"] = shown
        return answer

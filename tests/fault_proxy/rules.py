"""What can go wrong, for which requests and how often; and the record of what passed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

Callback = Callable[[], object]
"""Runs in a thread of its own. What it raises fails the proxy's `close`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer instead of the server, which never hears of the request."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseResponse:
    """Let the server do its work and answer in full, then cut the client off without a byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutBefore:
    """Cut the client off; the server never hears of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutResponse:
    """Cut the client off after so many bytes of the response's body."""

    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRequest:
    """Cut both sides off after so many bytes of the request's body: a half upload."""

    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayRequest:
    """Hold the request back. It goes out in the end even if the client has left by then."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRequest:
    """Cut the client off at once; the server gets the whole request all the same, but later."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayResponse:
    """Hold the response back; the server has done its work by then."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trickle:
    """Pass the response's body on slowly."""

    bytes_per_second: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptByte:
    """Change one byte of the response's body; its length stays."""

    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """Pass on so many bytes of the response's body, as if that was all there is."""

    to: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBefore:
    """Call back before anything is forwarded, then go on."""

    callback: Callback


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMidRequest:
    """Call back once so many bytes of the request's body went out, or all of them."""

    callback: Callback
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallMidResponse:
    """Call back once so many bytes of the response's body were passed on, or all of them."""

    callback: Callback
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAfter:
    """Call back when the whole response has come, before a byte of it is passed on.

    The response waits in memory: not for big ones.
    """

    callback: Callback


Action = (
    Answer
    | LoseResponse
    | CutBefore
    | CutResponse
    | CutRequest
    | DelayRequest
    | LateRequest
    | DelayResponse
    | Trickle
    | CorruptByte
    | Truncate
    | CallBefore
    | CallMidRequest
    | CallMidResponse
    | CallAfter
)


@dataclass(frozen=True, slots=True)
class Match:
    """Requests of a method (of any, if None) whose target, query included, holds the pattern.

    `nth` is the first such request that counts, from 1.
    """

    method: str | None
    path: str
    nth: int = 1

    def fits(self, method: str, target: str) -> bool:
        """Whether a request is meant, whichever occurrence it is."""
        return self.method in (None, method) and re.search(self.path, target) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An action for the next `times` requests that match; for all of them if None."""

    match: Match
    action: Action
    times: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request that reached the proxy, and what became of it.

    `status` is what the server answered, or the fault in its place; None while it has not
    answered, and for ever if it could not be reached or was never asked.
    """

    method: str
    target: str
    status: int | None = None
    fault: Action | None = None


@dataclass(slots=True)
class _Rule:
    fault: Fault
    seen: int = 0
    fired: int = 0

    @property
    def is_due(self) -> bool:
        times = self.fault.times
        return self.seen >= self.fault.match.nth and (times is None or self.fired < times)


@dataclass(slots=True)
class RuleBook:
    """The rules in the order in which they were added, and the log; safe under threads."""

    _rules: list[_Rule] = field(default_factory=list)
    _log: list[Exchange] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._rules.append(_Rule(fault))

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()

    def begin(self, method: str, target: str) -> tuple[int, Action | None]:
        """Enter a request; returns its number and the action of the first rule that is due."""
        with self._lock:
            fitting = [rule for rule in self._rules if rule.fault.match.fits(method, target)]
            for rule in fitting:
                rule.seen += 1
            due = next((rule for rule in fitting if rule.is_due), None)
            action = None
            if due is not None:
                due.fired += 1
                action = due.fault.action
            self._log.append(Exchange(method=method, target=target, fault=action))
            return len(self._log) - 1, action

    def answered(self, number: int, status: int) -> None:
        """Enter the status of a request, before the client can know of it."""
        with self._lock:
            self._log[number] = replace(self._log[number], status=status)

    @property
    def log(self) -> tuple[Exchange, ...]:
        with self._lock:
            return tuple(self._log)

"""Polls for free slots only: at once while there is work, with long polls or seldom when idle.

Invariant: the attempts that open polls may bring never exceed the free slots. A poll that was sent
is waited for: what it brings would otherwise be in progress with nobody until its lease runs out.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from perago.domain.errors import PeragoError
from perago.domain.ids import WorkerId
from perago.domain.workflow import PolledTask
from perago.ports import Clock, Orchestrator
from perago.runtime.calls import Calls
from perago.runtime.events import WorkerEvents

_log = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 0.25
_PAUSE_GROWTH = 1.5
_FIRST_RETRY_SECONDS = 0.5
_LONGEST_RETRY_SECONDS = 15.0
_REMIND_SECONDS = 60.0
"""How often an outage that goes on is said again."""

Receive = Callable[[Sequence[PolledTask], float], None]
"""Takes what a poll brought, and when that poll began on `Clock.elapsed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollPlan:
    """What a worker polls for, and how.

    `wait_seconds` is how long a poll of an idle worker may wait at the server; 0 asks again and
    again instead. `limits` bounds how many attempts of a task run here at a time.
    """

    task_names: tuple[str, ...]
    wait_seconds: float = 0.0
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class _Poll:
    """One that was sent. Identity tells them apart."""

    names: tuple[str, ...]
    count: int
    wait_seconds: float
    began: float


class Dispatcher:
    """Asks for no more attempts than there are free slots."""

    def __init__(
        self,
        plan: PollPlan,
        *,
        worker_id: WorkerId,
        orchestrator: Orchestrator,
        clock: Clock,
        calls: Calls,
        events: WorkerEvents,
        receive: Receive,
    ) -> None:
        self._plan = plan
        self._worker_id = worker_id
        self._orchestrator = orchestrator
        self._clock = clock
        self._calls = calls
        self._events = events
        self._receive = receive
        self._open: list[_Poll] = []
        self._turn = 0
        self._empty_in_a_row = 0
        self._failed_in_a_row = 0
        self._failed_at = 0.0
        self._changed_at = 0.0
        self._next_reminder = 0.0
        self._next_ask = 0.0
        self.answered_at: float | None = None
        """When a poll was last answered well, on `Clock.elapsed`."""
        self.error: str | None = None
        """Why the last poll failed; None when it was answered."""

    @property
    def is_asking(self) -> bool:
        """Whether a poll is under way."""
        return bool(self._open)

    @property
    def oldest_poll_began_at(self) -> float | None:
        """When the poll that is under way for longest was sent, on `Clock.elapsed`."""
        return min((poll.began for poll in self._open), default=None)

    @property
    def found_nothing(self) -> bool:
        """Whether the last look at every task's queue found it empty."""
        groups = len(self._plan.limits) + (len(self._plan.limits) < len(self._plan.task_names))
        return self._empty_in_a_row >= groups

    @property
    def due(self) -> float:
        """When to ask again, on `Clock.elapsed`."""
        return self._next_ask

    def ask_soon(self) -> None:
        """Something changed that may have scheduled an attempt, or freed a slot."""
        self._empty_in_a_row = 0
        self._changed_at = self._clock.elapsed()
        if not self._failed_in_a_row:
            self._next_ask = 0.0

    def ask(self, free: int, running: Counter[str]) -> None:
        """Poll for what this many free slots can take, besides what is asked for already."""
        if self._clock.elapsed() < self._next_ask:
            return
        free -= sum(poll.count for poll in self._open)
        names = tuple(name for name in self._plan.task_names if self._room_for(name, running) > 0)
        if free <= 0:
            return
        if not names:  # each is at its limit, until an attempt ends
            self._next_ask = self._clock.elapsed() + _LONGEST_PAUSE_SECONDS
            return
        if self._waits_at_server(names, free):
            self._ask_and_wait(names, free)
        else:
            self._look(names, free, running)

    def _waits_at_server(self, names: tuple[str, ...], free: int) -> bool:
        """Whether to leave polls at the server: nothing is there now, and each task's can stay.

        With fewer slots than tasks one queue would be watched and the others not.
        """
        unwatched = [name for name in names if not self._is_watched(name)]
        return self._plan.wait_seconds > 0 and self.found_nothing and len(unwatched) <= free

    def _ask_and_wait(self, names: tuple[str, ...], free: int) -> None:
        for name in names:
            if free > 0 and not self._is_watched(name):
                self._send((name,), 1, self._plan.wait_seconds)
                free -= 1

    def _look(self, names: tuple[str, ...], free: int, running: Counter[str]) -> None:
        """Ask for what is there now. A limited task is asked for by itself, or it would get more
        than its share; the groups take turns.
        """
        limited = [(name,) for name in names if name in self._plan.limits]
        unlimited = tuple(name for name in names if name not in self._plan.limits)
        groups = [group for group in (unlimited, *limited) if group]
        group = groups[self._turn % len(groups)]
        self._turn += 1
        self._send(group, min(free, *(self._room_for(name, running) for name in group)), 0.0)

    def _is_watched(self, name: str) -> bool:
        return any(poll.wait_seconds > 0 and name in poll.names for poll in self._open)

    def _room_for(self, name: str, running: Counter[str]) -> int:
        limit = self._plan.limits.get(name)
        if limit is None:
            return 1 << 16
        asked = sum(poll.count for poll in self._open if name in poll.names)
        return limit - running[name] - asked

    def _send(self, names: tuple[str, ...], count: int, wait_seconds: float) -> None:
        poll = _Poll(names, count, wait_seconds, self._clock.elapsed())

        def call() -> list[PolledTask]:
            return self._orchestrator.poll(
                poll.names,
                worker_id=self._worker_id,
                count=poll.count,
                wait_seconds=poll.wait_seconds,
            )

        self._open.append(poll)
        self._calls.submit(call, lambda answer: self._take(poll, answer))

    def _take(self, poll: _Poll, answer: list[PolledTask] | PeragoError) -> None:
        self._open.remove(poll)
        now = self._clock.elapsed()
        if isinstance(answer, PeragoError):
            self._back_off(poll, answer, now)
            return
        if self._failed_in_a_row:
            _log.info("the orchestrator answers again")
        self._failed_in_a_row = 0
        self.answered_at, self.error = now, None
        self._events.polled(len(answer))
        if answer:
            self._empty_in_a_row = 0
            self._next_ask = 0.0
            self._receive(answer, poll.began)
        elif poll.wait_seconds == 0:
            # One that was sent before the last change says nothing of what came by it.
            self._empty_in_a_row += poll.began >= self._changed_at
            self._next_ask = now + self._pause()

    def _pause(self) -> float:
        if self._plan.wait_seconds > 0 and self._empty_in_a_row == 1:
            return 0.0  # the next poll waits at the server, where it can
        # A worker that was idle all night must not compute 1.5 to the power of a million.
        power = min(self._empty_in_a_row - 1, 20)
        return min(_FIRST_PAUSE_SECONDS * _PAUSE_GROWTH**power, _LONGEST_PAUSE_SECONDS)

    def _back_off(self, poll: _Poll, error: PeragoError, now: float) -> None:
        # Polls that failed side by side are one failure.
        if poll.began >= self._failed_at:
            self._failed_in_a_row += 1
        self._failed_at = now
        self.error = error.message
        self._events.poll_failed(error.message)
        pause = min(
            _FIRST_RETRY_SECONDS * 2.0 ** min(self._failed_in_a_row - 1, 10), _LONGEST_RETRY_SECONDS
        )
        # Jitter: after an outage a hundred workers must not come back in the same moment.
        self._next_ask = now + pause * random.uniform(0.5, 1.0)  # noqa: S311
        if self._failed_in_a_row == 1 or now >= self._next_reminder:
            _log.warning("cannot poll, trying again: %s", error.message)
            self._next_reminder = now + _REMIND_SECONDS

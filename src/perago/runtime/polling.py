"""When to poll, and for what: at once while there is work, with long polls or seldom when idle.

Invariant: the attempts that open polls may bring never exceed the free slots. A poll that was sent
is waited for: what it brings would otherwise be in progress with nobody until its lease runs out.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from perago.domain.errors import PeragoError
from perago.domain.events import Event, Polled, PollFailed
from perago.domain.workflow import PolledTask

_log = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 0.25
_PAUSE_GROWTH = 1.5
_FIRST_RETRY_SECONDS = 0.5
_LONGEST_RETRY_SECONDS = 15.0
_REMIND_SECONDS = 60.0
"""How often an outage that goes on is said again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PollPlan:
    """What a worker polls for, and how.

    `wait_seconds` is how long a poll of an idle worker may wait at the server; 0 asks again and
    again instead. `limits` bounds how many attempts of a task run here at a time.
    """

    task_names: tuple[str, ...]
    wait_seconds: float
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Poll:
    """A poll to send. Identity tells polls apart."""

    names: tuple[str, ...]
    count: int
    wait_seconds: float
    began: float


class PollSchedule:
    """Asks for no more attempts than there are free slots."""

    def __init__(self, plan: PollPlan, random: Random) -> None:
        self._plan = plan
        self._random = random
        self._open: list[Poll] = []
        self._turn = 0
        self._empty_in_a_row = 0
        self._failed_in_a_row = 0
        self._failed_at = 0.0
        self._changed_at = 0.0
        self._next_reminder = 0.0
        self.due = 0.0
        """When to ask again, on `Clock.elapsed`."""
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

    def ask_soon(self, now: float) -> None:
        """Something changed that may have scheduled an attempt, or freed a slot."""
        self._empty_in_a_row = 0
        self._changed_at = now
        if not self._failed_in_a_row:
            self.due = 0.0

    def pause(self, now: float) -> None:
        """Ask again, but not at once."""
        self.due = max(self.due, now + _LONGEST_PAUSE_SECONDS)

    def ask(self, free: int, running: Counter[str], now: float) -> list[Poll]:
        """The polls to send for this many free slots, besides those that are under way."""
        if now < self.due:
            return []
        free -= sum(poll.count for poll in self._open)
        if free <= 0:
            return []
        names = tuple(name for name in self._plan.task_names if self._room_for(name, running) > 0)
        if not names:  # each is at its limit, until an attempt ends
            self.due = now + _LONGEST_PAUSE_SECONDS
            return []
        if self._waits_at_server(names, free):
            unwatched = [name for name in names if not self._is_watched(name)]
            waits = self._plan.wait_seconds
            polls = [
                Poll(names=(name,), count=1, wait_seconds=waits, began=now)
                for name in unwatched[:free]
            ]
        else:
            polls = [self._look(names, free, running, now)]
        self._open += polls
        return polls

    def take(
        self, poll: Poll, answer: list[PolledTask] | PeragoError, now: float
    ) -> tuple[Sequence[PolledTask], Event]:
        """Take the answer to a poll: what it brought, and what to tell of it."""
        self._open.remove(poll)
        if isinstance(answer, PeragoError):
            self._back_off(poll, answer, now)
            return (), PollFailed(reason=answer.message)
        if self._failed_in_a_row:
            _log.info("the orchestrator answers again")
        self._failed_in_a_row = 0
        self.answered_at, self.error = now, None
        if answer:
            self._empty_in_a_row = 0
            self.due = 0.0
        elif poll.wait_seconds == 0:
            # One that was sent before the last change says nothing of what came by it.
            self._empty_in_a_row += poll.began >= self._changed_at
            self.due = now + self._pause()
        return answer, Polled(tasks=len(answer))

    def _waits_at_server(self, names: tuple[str, ...], free: int) -> bool:
        """Whether to leave polls at the server: nothing is there now, and each task's can stay.

        With fewer slots than tasks one queue would be watched and the others not.
        """
        unwatched = [name for name in names if not self._is_watched(name)]
        return self._plan.wait_seconds > 0 and self.found_nothing and len(unwatched) <= free

    def _look(self, names: tuple[str, ...], free: int, running: Counter[str], now: float) -> Poll:
        """Ask for what is there now. A limited task is asked for by itself, or it would get more
        than its share; the groups take turns.
        """
        limited = [(name,) for name in names if name in self._plan.limits]
        unlimited = tuple(name for name in names if name not in self._plan.limits)
        groups = [group for group in (unlimited, *limited) if group]
        group = groups[self._turn % len(groups)]
        self._turn += 1
        count = min(free, *(self._room_for(name, running) for name in group))
        return Poll(names=group, count=count, wait_seconds=0.0, began=now)

    def _is_watched(self, name: str) -> bool:
        return any(poll.wait_seconds > 0 and name in poll.names for poll in self._open)

    def _room_for(self, name: str, running: Counter[str]) -> int:
        limit = self._plan.limits.get(name)
        if limit is None:
            return 1 << 16
        asked = sum(poll.count for poll in self._open if name in poll.names)
        return limit - running[name] - asked

    def _pause(self) -> float:
        if self._plan.wait_seconds > 0 and self._empty_in_a_row == 1:
            return 0.0  # the next poll waits at the server, where it can
        # A worker that was idle all night must not compute 1.5 to the power of a million.
        power = min(self._empty_in_a_row - 1, 20)
        return min(_FIRST_PAUSE_SECONDS * _PAUSE_GROWTH**power, _LONGEST_PAUSE_SECONDS)

    def _back_off(self, poll: Poll, error: PeragoError, now: float) -> None:
        # Polls that failed side by side are one failure.
        if poll.began >= self._failed_at:
            self._failed_in_a_row += 1
        self._failed_at = now
        self.error = error.message
        pause = min(
            _FIRST_RETRY_SECONDS * 2.0 ** min(self._failed_in_a_row - 1, 10), _LONGEST_RETRY_SECONDS
        )
        # Jitter: after an outage a hundred workers must not come back in the same moment.
        self.due = now + pause * self._random.uniform(0.5, 1.0)
        if self._failed_in_a_row == 1 or now >= self._next_reminder:
            _log.warning("cannot poll, trying again: %s", error.message)
            self._next_reminder = now + _REMIND_SECONDS

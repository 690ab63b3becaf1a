"""Tries a call again where a second one does no harm: with growing, random waits, for so long."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from perago.adapters.localfs.clock import SystemClock
from perago.domain.errors import PeragoError

_log = logging.getLogger(__name__)
_FIRST_WAIT_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 5.0
_MOST_ASKED_FOR_SECONDS = 10.0
_FIRST_CONTACT_SECONDS = 3.0
_elapsed = SystemClock().elapsed

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """How long the server asks its client to wait, when it does."""

    seconds: float | None = None


class TransientError(Exception):
    """A failure that may pass: what to raise in the end, and how long the server says to wait.

    `is_reached` says that something answered, if only by taking the connection. `tries` bounds how
    often it is worth a try, where that is not a matter of time.
    """

    def __init__(
        self,
        error: PeragoError,
        retry_after: RetryAfter,
        *,
        is_reached: bool = True,
        tries: int | None = None,
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.retry_after = retry_after
        self.is_reached = is_reached
        self.tries = tries


class Patience:
    """How long one client goes on trying, counted from a call's first failure.

    A server that it has reached before is given that long: enough for a restart. One that it never
    reached is a wrong address more often than a restart, and nobody wants to wait for that.
    """

    def __init__(
        self,
        seconds: float,
        *,
        elapsed: Callable[[], float] = _elapsed,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._seconds = seconds
        self._elapsed = elapsed
        self._sleep = sleep
        # Set by any thread, and never unset.
        self._has_reached = False

    def retry(
        self,
        call: Callable[[], _Result],
        *,
        least_tries: int = 1,
        wait: Callable[[float], object] | None = None,
    ) -> _Result:
        """Call until it succeeds; only for calls that may be repeated.

        `least_tries` is for a call that may itself take longer than all patience: so often it is
        tried, unless there is to be no second try at all. `wait` is another way to wait.
        """
        failures, first_failure = 0, 0.0
        while True:
            try:
                result = call()
            except TransientError as failure:
                self._has_reached = self._has_reached or failure.is_reached
                now = self._elapsed()
                failures += 1
                if failures == 1:
                    first_failure = now
                seconds = _wait_after(failures, failure)
                spent = now + seconds - first_failure
                if self._is_used_up(failure, failures, spent, least_tries):
                    raise failure.error from None
                _log.warning("%s; trying again in %.1f s", failure.error.message, seconds)
                (wait or self._sleep)(seconds)
            except PeragoError:
                self._has_reached = True
                raise
            else:
                self._has_reached = True
                return result

    def _is_used_up(
        self, failure: TransientError, failures: int, spent: float, least_tries: int
    ) -> bool:
        if failure.tries is not None and failures >= failure.tries:
            return True
        # From a server that was never reached no call can have been cut.
        due = least_tries if self._seconds > 0 and self._has_reached else 1
        return failures >= due and spent > self._allowed

    @property
    def _allowed(self) -> float:
        return self._seconds if self._has_reached else min(self._seconds, _FIRST_CONTACT_SECONDS)


def once(call: Callable[[], _Result]) -> _Result:
    """Call once: for what must never be sent a second time."""
    try:
        return call()
    except TransientError as failure:
        raise failure.error from None


def _wait_after(failures: int, failure: TransientError) -> float:
    """Random within a range that doubles, so that many clients do not come back together."""
    longest = min(_FIRST_WAIT_SECONDS * 2 ** (failures - 1), _LONGEST_WAIT_SECONDS)
    wait = random.uniform(longest / 2, longest)  # noqa: S311 - no secret depends on it
    return max(wait, min(failure.retry_after.seconds or 0.0, _MOST_ASKED_FOR_SECONDS))

"""Tries a call again where a second one does no harm: with growing, random waits."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from perago.adapters.lakefs.answers import TransientError

_log = logging.getLogger(__name__)
_FIRST_WAIT_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 10.0
TRIES = 5
"""Waits of about 0.2, 0.4, 0.8 and 1.6 s: a server that restarts is back by then."""

_Result = TypeVar("_Result")


def with_retries(call: Callable[[], _Result]) -> _Result:
    """Call until it succeeds, up to `TRIES` times; only for calls that may be repeated."""
    for number in range(1, TRIES):
        try:
            return call()
        except TransientError as failure:
            wait = _wait_after(number, failure)
            _log.warning("%s; trying again in %.1f s", failure.error.message, wait)
            time.sleep(wait)
    return once(call)


def once(call: Callable[[], _Result]) -> _Result:
    """Call once: for what must never be sent a second time."""
    try:
        return call()
    except TransientError as failure:
        raise failure.error from None


def _wait_after(number: int, failure: TransientError) -> float:
    """Random within a range that doubles, so that many clients do not come back together."""
    longest = _FIRST_WAIT_SECONDS * 2 ** (number - 1)
    wait = random.uniform(longest / 2, longest)  # noqa: S311 - no secret depends on it
    asked_for = failure.retry_after.seconds
    return min(max(wait, asked_for or 0.0), _LONGEST_WAIT_SECONDS)

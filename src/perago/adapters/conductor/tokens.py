"""Keeps the token that a key and its secret were exchanged for.

Invariant: many threads that find the same token old, or refused, get one new one between them.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable

from perago.adapters.localfs.clock import SystemClock
from perago.domain.json_limits import read_json

_LIFE_SECONDS = 45 * 60.0
"""How long a token is used that does not say when it ends, or says later than that."""
_MARGIN_SECONDS = 60.0
_elapsed = SystemClock().elapsed


class TokenSource:
    """Logs in when a token is first needed, and again before it ends."""

    def __init__(
        self,
        log_in: Callable[[], str],
        *,
        elapsed: Callable[[], float] = _elapsed,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._log_in = log_in
        self._elapsed = elapsed
        self._wall_clock = wall_clock
        self._lock = threading.Lock()
        self._token: str | None = None
        self._good_until = 0.0

    def current(self) -> str:
        """A token that is good for a while yet."""
        with self._lock:
            if self._token is None or self._elapsed() >= self._good_until:
                return self._replace()
            return self._token

    def renew(self, refused: str) -> str:
        """Another token than the one that the server refused."""
        with self._lock:
            if self._token is None or self._token == refused:
                return self._replace()
            return self._token

    def _replace(self) -> str:
        self._token = None
        token = self._log_in()
        life = min(_LIFE_SECONDS, _remaining_life(token, self._wall_clock()))
        # One that ends within the margin is used for half its life rather than never.
        self._good_until = self._elapsed() + max(life - _MARGIN_SECONDS, life / 2)
        self._token = token
        return token


def is_token_refused(status: int, body: bytes) -> bool:
    """Whether an answer may become another with a new token."""
    return status == 401 or (status == 403 and b"token" in body.lower())


def _remaining_life(token: str, now: float) -> float:
    """What a JWT says of its end; unverified, for the server is the judge of it."""
    try:
        payload = token.split(".")[1]
        claims = read_json(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        end = claims["exp"] if isinstance(claims, dict) else None
        return max(0.0, float(end) - now) if isinstance(end, int | float) else _LIFE_SECONDS
    except (ValueError, KeyError, IndexError, OverflowError):
        return _LIFE_SECONDS

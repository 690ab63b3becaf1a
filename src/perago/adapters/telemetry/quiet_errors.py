"""What OpenTelemetry logs about itself, as one warning now and then.

A collector that is away for a night would otherwise fill the worker's log: each batch that cannot
be sent is told several times.
"""

from __future__ import annotations

import logging
import time

_log = logging.getLogger("perago.telemetry")

_SECONDS_BETWEEN = 600.0


class _SeldomHandler(logging.Handler):
    """Passes one record on every ten minutes, and counts the others."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._told_at: float | None = None
        self._held = 0

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if self._told_at is not None and now - self._told_at < _SECONDS_BETWEEN:
            self._held += 1
            return
        more = f" ({self._held} more since the last such line)" if self._held else ""
        self._told_at, self._held = now, 0
        _log.warning("telemetry is not delivered: %s%s", record.getMessage()[:300], more)


def make_errors_seldom() -> None:
    """From now on OpenTelemetry's own complaints are few.

    It stays so after telemetry is closed: what a dead collector left behind may still complain.
    """
    logger = logging.getLogger("opentelemetry")
    for handler in list(logger.handlers):
        if isinstance(handler, _SeldomHandler):
            logger.removeHandler(handler)
    logger.addHandler(_SeldomHandler())
    logger.propagate = False

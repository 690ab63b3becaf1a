"""Passes each event of a worker on to all that show its work."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from perago.domain.events import Event, EventHandler

_log = logging.getLogger(__name__)


class FanOut:
    """The `EventHandler` that tells several others. One that raises harms neither the others nor
    the supervisor.
    """

    def __init__(self, handlers: Sequence[EventHandler] = ()) -> None:
        self._handlers = tuple(handlers)
        self._broken: set[int] = set()

    def handle(self, event: Event) -> None:
        """Pass the event on."""
        for number, handler in enumerate(self._handlers):
            try:
                handler.handle(event)
            # A handler must never stop the work. Logged once: a handler that fails at every event
            # would fill the log.
            except Exception:  # noqa: BLE001
                if number not in self._broken:
                    self._broken.add(number)
                    _log.exception(
                        "%s failed; further failures of it are not logged", type(handler).__name__
                    )

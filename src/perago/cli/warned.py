"""Where the warnings of the inner layers go while a command runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOGGER = "perago"


class WarningHandler(logging.Handler):
    """Says every warning, its traceback left out."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._warn = warn

    def emit(self, record: logging.LogRecord) -> None:
        """Say one warning."""
        self._warn(record.getMessage())


@contextmanager
def warnings_to(warn: Callable[[str], None] | None) -> Iterator[None]:
    """Let this say Perago's warnings, instead of whatever said them before; None leaves them to
    the log alone.
    """
    logger = logging.getLogger(_LOGGER)
    before = logger.handlers
    logger.handlers = [] if warn is None else [WarningHandler(warn)]
    try:
        yield
    finally:
        logger.handlers = before

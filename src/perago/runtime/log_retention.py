"""Removes the logs of attempts that are long over: a worker runs for months."""

from __future__ import annotations

import logging
import shutil
import time
from pathlib import Path

from perago.runtime.calls import Calls

_log = logging.getLogger(__name__)

_SECONDS_PER_DAY = 86_400.0
_EVERY_SECONDS = 3_600.0


class LogRetention:
    """Keeps the logs of each workflow for so many days after the last line of any of them."""

    def __init__(self, logs: Path, calls: Calls, *, days: float) -> None:
        self._logs = logs
        self._calls = calls
        self._days = days
        self._next = 0.0

    def sweep_if_due(self, elapsed: float) -> None:
        """Once an hour, remove what is too old, beside the loop; `elapsed` is `Clock.elapsed`."""
        if elapsed >= self._next:
            self._next = elapsed + _EVERY_SECONDS
            self._calls.submit(self.sweep, lambda _: None)

    def sweep(self) -> None:
        """Remove what is too old."""
        oldest = time.time() - self._days * _SECONDS_PER_DAY
        try:
            old = [
                path for path in self._logs.iterdir() if path.is_dir() and _is_older(path, oldest)
            ]
        except OSError as error:
            _log.warning("cannot look for old logs: %s", error)
            return
        for directory in old:
            shutil.rmtree(directory, ignore_errors=True)  # what stays now goes in an hour


def _is_older(directory: Path, oldest: float) -> bool:
    """Whether nothing in a workflow's directory of logs was written since."""
    if directory.stat().st_mtime >= oldest:
        return False
    return all(path.stat().st_mtime < oldest for path in directory.iterdir())

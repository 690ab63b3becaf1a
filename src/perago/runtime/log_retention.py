"""Removes the logs of attempts that are long over: a worker runs for months.

Invariant: only files that are named like logs of ours go, one by one, from a directory that carries
Perago's tag; a workflow's directory goes when nothing is left in it.
"""

from __future__ import annotations

import logging
import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from perago.domain.errors import EnvironmentUnfitError
from perago.runtime.attempt_logs import is_attempt_log
from perago.runtime.calls import Calls
from perago.system.directories import OwnDirectory, open_own_directory
from perago.system.tags import LOGS_TAG

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
        """Remove what is too old; what cannot be removed now goes in an hour."""
        oldest = time.time() - self._days * _SECONDS_PER_DAY
        try:
            logs = open_own_directory(self._logs, LOGS_TAG)
            if logs is None:
                return
            with logs:
                for name in logs.names():
                    with suppress(OSError):
                        _remove_workflow_if_old(logs, name, oldest)
        except (OSError, EnvironmentUnfitError) as error:
            _log.warning("cannot look for old logs: %s", error)


def _remove_workflow_if_old(logs: OwnDirectory, name: str, oldest: float) -> None:
    if not stat.S_ISDIR(logs.kind_of(name)):
        return
    with logs.below(name) as workflow:
        directory = workflow.descriptor
        if os.fstat(directory).st_mtime >= oldest:
            return
        found = workflow.names()
        times = [os.stat(log, dir_fd=directory, follow_symlinks=False).st_mtime for log in found]
        if not all(at < oldest for at in times):
            return
        for log in found:
            if is_attempt_log(log) and stat.S_ISREG(workflow.kind_of(log)):
                workflow.remove_tree(log)
    # Only where nothing is left: an executor may just have begun another log there.
    logs.remove_empty(name)

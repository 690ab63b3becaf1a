"""Which process wrote something, told apart from a later one that got the same pid."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass

import psutil

_SAME_START_SECONDS = 2.0
"""Two readings of one process's start may differ a little when the wall clock is adjusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A pid with the moment the process started."""

    pid: int
    started_at: float

    @property
    def is_alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started_at) < _SAME_START_SECONDS
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


def current_process() -> ProcessIdentity:
    """The identity of the calling process."""
    return identify(os.getpid())


def identify(pid: int) -> ProcessIdentity:
    """The identity of a running process."""
    return ProcessIdentity(pid=pid, started_at=psutil.Process(pid).create_time())


def end_process_group(leader: ProcessIdentity) -> None:
    """Kill an executor that outlived its supervisor, with its children, and wait until it is gone.

    A process that merely got the same pid later is left alone.
    """
    if not leader.is_alive or leader.pid == os.getpid():
        return
    with suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGKILL)
    with suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
        psutil.Process(leader.pid).wait(timeout=_SAME_START_SECONDS)

"""Which process wrote something, told apart from a later one that got the same pid."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

_SAME_BIRTH_SECONDS = 2.0
"""Two readings of one process's birth differ a little where the system rounds the times of both."""

_END_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A pid with the moment the process was born, in seconds after a boot of the machine.

    Not by the wall clock: that is set while processes run, and with it psutil's `create_time()`
    moves (its issue 2526). A living process would be taken for another one.
    """

    pid: int
    boot: str
    born: float

    @property
    def is_alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        try:
            found = identify(self.pid)
            same = found.boot == self.boot and abs(found.born - self.born) < _SAME_BIRTH_SECONDS
            return same and psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


def current_process() -> ProcessIdentity:
    """The identity of the calling process."""
    return identify(os.getpid())


def identify(pid: int) -> ProcessIdentity:
    """The identity of a process; `psutil.NoSuchProcess` where there is none."""
    # The boot first: `create_time()` is told by the one that was asked for last.
    booted = psutil.boot_time()
    born = psutil.Process(pid).create_time() - booted
    return ProcessIdentity(pid=pid, boot=_boot_id(), born=born)


@cache
def _boot_id() -> str:
    """Which boot of the machine this is, where the system tells: births repeat after each."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def end_process_group(leader: ProcessIdentity) -> None:
    """Kill an executor that outlived its supervisor, with its children, and wait until it is gone.

    A process that merely got the same pid later is left alone.
    """
    if not leader.is_alive or leader.pid == os.getpid():
        return
    with suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGKILL)
    with suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
        psutil.Process(leader.pid).wait(timeout=_END_SECONDS)

"""Which process wrote something, told apart from a later one that got the same pid."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from perago.system.state_files import text_of, whole_number

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
        except (psutil.NoSuchProcess, ValueError, OverflowError):
            return False  # the last two: no process has a number like that

    @classmethod
    def from_json(cls, raw: object) -> ProcessIdentity:
        """Read one back from a state file; `ValueError` for what is none."""
        if not isinstance(raw, dict):
            raise ValueError("a process is no object")  # noqa: TRY004 - as for any other junk
        born = raw.get("born")
        if isinstance(born, bool) or not isinstance(born, int | float) or not abs(born) < 2**53:
            raise ValueError("the birth of a process is wrong")
        return cls(
            pid=whole_number(raw.get("pid"), least=1, most=2**31 - 1),
            boot=text_of(raw.get("boot")),
            born=float(born),
        )


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


def end_process_group(leader: ProcessIdentity, *, holding: os.stat_result) -> bool:
    """Kill an executor that outlived its supervisor, with its children; say whether that was done.

    A file may name any process. Killed is only what proves to be meant: this very process, of our
    user, at the head of a group that is not ours, and with the file `holding` open, which nobody
    opens but the executor that wrote it. Waits until the process is gone.
    """
    try:
        if not leader.is_alive or not _is_meant(leader, holding):
            return False
        os.killpg(leader.pid, signal.SIGKILL)
    except (psutil.Error, ProcessLookupError, PermissionError):
        return False
    with suppress(psutil.Error):
        psutil.Process(leader.pid).wait(timeout=_END_SECONDS)
    return True


def _is_meant(leader: ProcessIdentity, holding: os.stat_result) -> bool:
    if leader.pid <= 1 or leader.pid in (os.getpid(), os.getppid()):
        return False
    if os.getpgid(leader.pid) != leader.pid or leader.pid == os.getpgrp():
        return False
    process = psutil.Process(leader.pid)
    return process.uids().real == os.getuid() and any(
        _is_file(opened.path, holding) for opened in process.open_files()
    )


def _is_file(path: str, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.lstat(path), found)
    except OSError:
        return False

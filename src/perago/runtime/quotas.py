"""What one attempt may take of the machine: looked at from outside, where no body can prevent it.

Processes are counted over the attempt's process group. `RLIMIT_NPROC` would count all processes of
the user, other attempts' too. A process that leaves the group is not counted.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import psutil

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_STAT_BYTES = 1024


class QuotaWatch:
    """Looks about once a second at each attempt."""

    def __init__(self, *, most_log_bytes: int | None, most_processes: int | None) -> None:
        self._most_log_bytes = most_log_bytes
        self._most_processes = most_processes
        self._counted_at = -_LOOK_SECONDS
        self._processes: dict[int, int] = {}

    def find_excess(self, process_group: int, log: Path | None, now: float) -> str | None:
        """Say what an attempt has too much of; None while it keeps within its quotas."""
        return self._explain_log(log) or self._explain_processes(process_group, now)

    def _explain_log(self, log: Path | None) -> str | None:
        most = self._most_log_bytes
        if log is None:
            return None
        try:
            size = log.stat().st_size if most is not None else 0
        except OSError:  # not written yet
            return None
        if most is None or size <= most:
            return None
        return (
            f"the attempt's log has {size} bytes, and {most} are allowed: write less, or raise "
            "attempt_log_bytes (PERAGO_ATTEMPT_LOG_BYTES)"
        )

    def _explain_processes(self, process_group: int, now: float) -> str | None:
        most = self._most_processes
        if most is None:
            return None
        if now >= self._counted_at + _LOOK_SECONDS:
            self._counted_at = now
            try:
                self._processes = count_processes_by_group()
            except OSError as error:  # too many open files: the last count stands
                _log.warning("cannot count processes: %s", error.strerror)
        count = self._processes.get(process_group, 0)
        if count <= most:
            return None
        return (
            f"the attempt runs {count} processes, and {most} are allowed: start fewer, or raise "
            "attempt_processes (PERAGO_ATTEMPT_PROCESSES)"
        )


def count_processes_by_group() -> dict[int, int]:
    """How many processes each process group has."""
    counts: dict[int, int] = {}
    for group in _groups_from_proc() if sys.platform == "linux" else _groups_by_asking():
        counts[group] = counts.get(group, 0) + 1
    return counts


def _groups_from_proc() -> list[int]:
    # One small file for each process: `psutil` would read several.
    groups = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - it is in the supervisor's loop
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb", buffering=0) as stat:  # noqa: PTH123
                    text = stat.read(_STAT_BYTES)
            except OSError:  # it ended meanwhile
                continue
            # After the name, which may hold anything: state, parent, group.
            groups.append(int(text.rpartition(b")")[2].split()[2]))
    return groups


def _groups_by_asking() -> list[int]:
    groups = []
    for pid in psutil.pids():
        try:
            groups.append(os.getpgid(pid))
        except (ProcessLookupError, PermissionError):
            continue
    return groups

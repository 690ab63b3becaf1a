"""What this machine, or the container around this process, has to offer."""

from __future__ import annotations

import os
from pathlib import Path

from perago.adapters.spark.settings import Machine

_MEBIBYTE = 1024 * 1024
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def measure_machine(cgroup_limit: Path = _CGROUP_LIMIT) -> Machine:
    """The cores that this process may use, and the memory, less where a container limits it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MEBIBYTE
    limit = _read_limit(cgroup_limit)
    return Machine(cores=_usable_cores(), memory_mb=memory if limit is None else min(memory, limit))


def _usable_cores() -> int:
    # macOS knows no affinity.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _read_limit(path: Path) -> int | None:
    """The container's memory in MiB; None where there is no limit (`max`) or no container."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) // _MEBIBYTE if text.isdigit() else None

"""Finds the logs that executors wrote; where they lie is decided by the supervisor."""

from __future__ import annotations

from pathlib import Path

from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId
from perago.runtime.supervisor import attempt_log_path


def find_attempt_logs(logs: Path, attempt: Attempt) -> list[Path]:
    """The logs of every execution of an attempt, oldest first; usually one."""
    # Nothing else in the name is special to a pattern: it is escaped.
    pattern = attempt_log_path(logs, attempt, ExecutionId("*"))
    found = pattern.parent.glob(pattern.name)
    return sorted(found, key=lambda path: path.stat().st_mtime_ns)

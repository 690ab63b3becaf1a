"""Where the logs of attempts lie: by workflow, then by step, retry and execution."""

from __future__ import annotations

import re
from pathlib import Path

from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId
from perago.domain.staging import escape_label

_EXECUTION_DIGITS = 8
"""So much of an execution id tells the executions of one attempt apart."""

_LOG_NAME = re.compile(r".+\.[0-9]+\.[0-9a-f]{8}\.log", re.DOTALL)


def attempt_log_path(logs: Path, attempt: Attempt, execution_id: ExecutionId) -> Path:
    """Where one execution of an attempt writes its log."""
    step = escape_label(attempt.reference_name)
    name = f"{step}.{attempt.retry_count}.{execution_id[:_EXECUTION_DIGITS]}.log"
    return logs / escape_label(attempt.workflow_id) / name


def is_attempt_log(name: str) -> bool:
    """Whether a file is named like the log of an execution."""
    return _LOG_NAME.fullmatch(name) is not None


def find_attempt_logs(logs: Path, attempt: Attempt) -> list[Path]:
    """The logs of every execution of an attempt, oldest first; usually one."""
    # Nothing else in the name is special to a pattern: it is escaped.
    pattern = attempt_log_path(logs, attempt, ExecutionId("*"))
    found = pattern.parent.glob(pattern.name)
    return sorted(found, key=lambda path: path.stat().st_mtime_ns)

"""How one supervisor works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perago.domain.ids import WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorOptions:
    """What a supervisor is told when it is built."""

    worker_id: WorkerId
    executors: int
    heartbeats: Mapping[str, float]
    """For each task that it polls, the heartbeat interval in seconds."""
    merge_timeouts: Mapping[str, float]
    logs_directory: Path
    death_limit: int = 3
    shutdown_grace_seconds: float = 30.0
    publish_may_outlive_executor: bool = False
    """Whether a publish call that was sent may still land after its sender died (a server does
    the work). Then the death is reported only after the merge time-out."""
    keep_logs_days: float = 30.0
    poll_wait_seconds: float = 0.0
    """How long a poll may wait at the orchestrator while the worker is idle."""
    task_limits: Mapping[str, int] = field(default_factory=dict)
    """How many attempts of a task run here at a time, where fewer than `executors`."""
    max_attempts: int | None = None
    """After so many the supervisor is done."""
    recycle_after_attempts: int | None = None
    recycle_above_bytes: int | None = None
    """An idle executor that ran so many attempts, or holds so much memory, is replaced."""
    most_log_bytes: int | None = None
    most_processes: int | None = None
    """What an attempt may write to its log, and how many processes it may run; None is no bound."""

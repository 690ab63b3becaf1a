"""What a body may know and say about the attempt that it is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId
from perago.domain.workspace import WorkspaceRef


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """Facts about the running attempt, its logger, and a way to tell how far it is.

    Take it as a parameter of a task: `def clean(workspace: Path, params: P, context: TaskContext)`.
    """

    attempt: Attempt
    execution_id: ExecutionId
    workspace: WorkspaceRef | None
    logger: logging.Logger | logging.LoggerAdapter[logging.Logger]
    on_progress: Callable[[str, float | None], None]
    is_cancelled: Callable[[], bool]

    def progress(self, message: str, fraction: float | None = None) -> None:
        """Tell how far the body is; `fraction` goes from 0 to 1."""
        # Clamped: a rounding error in a progress bar must not fail an attempt.
        self.on_progress(message, None if fraction is None else min(1.0, max(0.0, fraction)))

    @property
    def cancelled(self) -> bool:
        """Whether the attempt was cancelled; a long body looks now and then, and returns."""
        return self.is_cancelled()

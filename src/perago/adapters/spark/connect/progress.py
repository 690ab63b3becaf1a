"""How far a Spark Connect server is with a session's work, as it reports along with its answers.

An operation counts as a job. The server reports every other second, so that of short operations the
stages are not known, and it does not report tasks that failed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from perago.adapters.spark.progress import describe_call
from perago.domain.errors import EnvironmentUnfitError
from perago.domain.spark_progress import SparkProgress, SparkStage

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.connect.shell.progress import StageInfo


class ConnectSparkWatch:
    """Hears of a session's operations from the moment it was made, in the body's thread."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._body_thread = threading.get_ident()
        self._lock = threading.Lock()
        self._open: dict[str | None, list[StageInfo]] = {}
        self._over = SparkProgress()
        session.registerProgressHandler(self)  # type: ignore[arg-type]

    def __call__(
        self,
        stages: Iterable[StageInfo] | None,
        inflight_tasks: int,  # noqa: ARG002 - Spark names what it gives
        operation_id: str | None,
        done: bool,
    ) -> None:
        """What Spark's client calls, in whatever thread waits for the operation."""
        known = list(stages or ())
        with self._lock:
            if not done:
                self._open[operation_id] = known
                return
            known = known or self._open.get(operation_id, [])
            self._open.pop(operation_id, None)
            over = self._over
            self._over = SparkProgress(
                jobs=over.jobs + 1,
                stages=over.stages + len(known),
                stages_done=over.stages_done + len(known),
                tasks_done=over.tasks_done + sum(stage.num_completed_tasks for stage in known),
            )

    def look(self) -> SparkProgress:
        if self._session.is_stopped:
            raise EnvironmentUnfitError("the body stopped its Spark session")
        place = describe_call(self._body_thread)
        with self._lock:
            running = [stage for stages in self._open.values() for stage in stages]
            over, operations = self._over, len(self._open)
        active = [stage for stage in running if not stage.done and stage.num_tasks]
        return SparkProgress(
            jobs=over.jobs + operations,
            stages=over.stages + len(running),
            stages_done=over.stages_done + sum(stage.done for stage in running),
            tasks_done=over.tasks_done + sum(stage.num_completed_tasks for stage in running),
            active=tuple(
                SparkStage(name=place, tasks=stage.num_tasks, tasks_done=stage.num_completed_tasks)
                for stage in active
            ),
        )

    def total(self) -> SparkProgress:
        return self.look()

"""Spark sessions that note what lending Spark to an attempt costs.

That is all that Perago adds to Spark itself: a session of the attempt's own, access to the
repository, the wait until none of its jobs runs, and the cleaning afterwards. The rest of an
attempt is its body, the store and the guardrails.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from perago.adapters.spark import LocalSparkLease, LocalSparkSessions
from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId
from perago.ports import DirectPlace, DirectStore, SparkWatch, SparkWorkspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Costs:
    """Seconds by what they were spent on, of one attempt."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Add the time of a block."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began


class TimedLease:
    """A `SparkLease` that passes everything on."""

    def __init__(self, lease: LocalSparkLease, costs: Costs) -> None:
        self._lease = lease
        self._costs = costs

    @property
    def session(self) -> SparkSession:
        return self._lease.session

    @property
    def is_usable(self) -> bool:
        return self._lease.is_usable

    def watch(self) -> SparkWatch:
        with self._costs.of("open"):
            return self._lease.watch()

    def workspace(self, input_directory: Path, output_directory: Path) -> SparkWorkspace:
        with self._costs.of("open"):
            return self._lease.workspace(input_directory, output_directory)

    def direct_workspace(self, place: DirectPlace, store: DirectStore) -> SparkWorkspace:
        with self._costs.of("open"):
            return self._lease.direct_workspace(place, store)

    def settle(self) -> None:
        with self._costs.of("settle"):
            self._lease.settle()


class TimedSessions:
    """`SparkSessions`; `last` is what all leases of the last attempt cost."""

    def __init__(self, sessions: LocalSparkSessions) -> None:
        self._sessions = sessions
        self._last_execution: ExecutionId | None = None
        self.last = Costs()

    @contextmanager
    def lease(
        self, attempt: Attempt, execution_id: ExecutionId, *, direct: bool = False
    ) -> Iterator[TimedLease]:
        if execution_id != self._last_execution:
            self._last_execution, self.last = execution_id, Costs()
        costs = self.last
        use = self._sessions.lease(attempt, execution_id, direct=direct)
        with costs.of("lease"):
            lease = use.__enter__()
        try:
            yield TimedLease(lease, costs)
        except BaseException as error:
            if not use.__exit__(type(error), error, error.__traceback__):
                raise
        else:
            with costs.of("close"):
                use.__exit__(None, None, None)

    def stop(self) -> None:
        self._sessions.stop()

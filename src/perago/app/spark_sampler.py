"""Tells how far Spark is while a body runs, from a thread beside it.

Invariant: watching never changes how an attempt ends. What cannot be read is not told, and nothing
is asked of Spark after the sampler has ended, which is before the lease does.
"""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import Self

from perago.domain.spark_progress import NO_SPARK_PROGRESS, SparkProgress
from perago.ports import AttemptObserver, Clock, SparkLease, SparkWatch

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_LOOK_SHARE = 20
"""A look that takes long makes looks rare: they take a twentieth of the time at most."""

_LINE_SECONDS = 10.0
_LINE_SHARE = 20
"""The longer a body runs, the rarer its lines: a day gives less than two hundred."""

_END_SECONDS = 2.0
"""How long the end of a body waits for the last look, where Spark does not answer."""


class SparkTeller:
    """Decides what of many looks is told, and which are worth a line in the task's log."""

    def __init__(self, observer: AttemptObserver, began: float) -> None:
        self._observer = observer
        self._began = began
        self._told = NO_SPARK_PROGRESS
        self._line = ""
        self._line_at = began

    def hear(self, progress: SparkProgress, at: float) -> None:
        """Tell what is new; in a line, if the last one is long ago."""
        line = progress.describe()
        is_new = bool(progress.jobs) and line != self._line
        if is_new and self._is_line_due(at):
            self._line, self._line_at = line, at
            self._tell(progress, line)
        else:
            self._tell(progress, None)

    def hear_total(self, progress: SparkProgress) -> None:
        """The body is over: the last line says what it took, if it took anything."""
        if progress.jobs:
            self._tell(progress, progress.describe_total())

    def _is_line_due(self, at: float) -> bool:
        return at - self._line_at >= max(_LINE_SECONDS, (at - self._began) / _LINE_SHARE)

    def _tell(self, progress: SparkProgress, line: str | None) -> None:
        if line is not None:
            _log.info("%s", line)
        elif progress == self._told:
            return
        self._told = progress
        self._observer.spark_progressed(progress, line)


class SparkSampler:
    """Looks about once a second from entry to exit; does nothing without Spark."""

    def __init__(
        self,
        spark: SparkLease | None,
        observer: AttemptObserver,
        clock: Clock,
        *,
        every_seconds: float = _LOOK_SECONDS,
    ) -> None:
        self._spark = spark
        self._clock = clock
        self._every_seconds = every_seconds
        self._teller = SparkTeller(observer, clock.elapsed())
        self._is_over = threading.Event()
        self._is_abandoned = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Begin to count in the body's own thread: before its first job."""
        if self._spark is None:
            return self
        try:
            watch = self._spark.watch()
        # Whatever went wrong: the body runs, and only its display is poorer.
        except Exception:  # noqa: BLE001
            _log.debug("cannot see how far Spark is", exc_info=True)
            return self
        self._thread = threading.Thread(
            target=self._run, args=(watch,), name="spark-progress", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._thread is None:
            return
        self._is_over.set()
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive():
            self._is_abandoned = True
            _log.debug("Spark does not say how far it is; it is not waited for")

    def _run(self, watch: SparkWatch) -> None:
        try:
            self._look_on(watch)
        except Exception:  # noqa: BLE001 - as above
            _log.debug("cannot see how far Spark is any more", exc_info=True)

    def _look_on(self, watch: SparkWatch) -> None:
        pause = self._every_seconds
        while not self._is_over.wait(pause):
            began = self._clock.elapsed()
            progress = watch.look()
            if not self._is_abandoned:
                self._teller.hear(progress, self._clock.elapsed())
            pause = max(self._every_seconds, _LOOK_SHARE * (self._clock.elapsed() - began))
        if not self._is_abandoned:
            total = watch.total()
            if not self._is_abandoned:
                self._teller.hear_total(total)

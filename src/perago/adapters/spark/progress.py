"""How far a Spark context in a JVM of this process is, counted from its own status store.

The store lags a moment behind, which a display does not mind. Jobs are told apart by their numbers
and not by their group: a thread that the body started has none, and a process runs one attempt at
a time.
"""

from __future__ import annotations

import sys
import sysconfig
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from perago.domain.errors import EnvironmentUnfitError
from perago.domain.spark_progress import SparkProgress, SparkStage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from py4j.java_gateway import JavaObject
    from pyspark import SparkContext

_MOST_JOBS = 200
"""So many of the newest jobs are looked at each time; what a look missed, the total has."""
_MOST_STAGES = 4
_CATCH_UP_MILLISECONDS = 200
_LONGEST_NAME = 80
_PERAGO = str(Path(__file__).parents[2])
_UNTELLING = ("NativeMethodAccessorImpl.java", "CompletableFuture.java", "ThreadPoolExecutor.java")
"""Where Spark sees a call of Python's come from; it says nothing to anybody."""


@dataclass(frozen=True, slots=True)
class _Job:
    stages: int = 0
    tasks: int = 0
    failed: int = 0

    def plus(self, other: _Job) -> _Job:
        return _Job(
            self.stages + other.stages, self.tasks + other.tasks, self.failed + other.failed
        )


class LocalSparkWatch:
    """Counts the jobs that begin after it was made, in the thread that will run the body.

    All else is called from another thread.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._body_thread = threading.get_ident()
        self._first = _next_job(context)
        self._over = _Job()
        self._oldest = self._first
        """All jobs before it are counted."""
        self._ids_over: set[int] = set()
        self._running: dict[int, _Job] = {}

    def look(self) -> SparkProgress:
        """Where it is now; raises once the body has stopped Spark."""
        return self._look(_MOST_JOBS)

    def total(self) -> SparkProgress:
        """The last look: waits a moment for what Spark has done and not yet counted."""
        from py4j.protocol import Py4JJavaError

        spark = self._live_spark()
        with suppress(Py4JJavaError):  # something still runs, and is told as far as it is known
            spark.listenerBus().waitUntilEmpty(_CATCH_UP_MILLISECONDS)
        return self._look(None)

    def _look(self, most: int | None) -> SparkProgress:
        spark = self._live_spark()
        began = _next_job(self._context) - self._first
        if not began:
            return SparkProgress()
        self._count_jobs(spark.statusStore(), most)
        done = self._over
        for job in self._running.values():
            done = done.plus(job)
        scheduler = spark.dagScheduler()
        to_come = int(scheduler.runningStages().size()) + int(scheduler.waitingStages().size())
        return SparkProgress(
            jobs=began,
            stages=done.stages + to_come,
            stages_done=done.stages,
            tasks_done=done.tasks,
            tasks_failed=done.failed,
            active=tuple(self._active_stages()),
        )

    def _live_spark(self) -> JavaObject:
        java = self._context._jsc  # noqa: SLF001
        if java is None or java.sc().isStopped():
            raise EnvironmentUnfitError("the body stopped Spark")
        return java.sc()

    def _count_jobs(self, store: JavaObject, most: int | None) -> None:
        """Read the jobs that are not known to be over, newest first."""
        jobs = store.jobsList(None).iterator()
        seen = 0
        while jobs.hasNext() and (most is None or seen < most):
            job = jobs.next()
            number = int(job.jobId())
            if number < self._oldest:
                break
            seen += 1
            if number not in self._ids_over:
                self._count_job(number, job)
        while self._oldest in self._ids_over:
            self._ids_over.remove(self._oldest)
            self._oldest += 1

    def _count_job(self, number: int, job: JavaObject) -> None:
        counts = _Job(
            int(job.numCompletedStages()), int(job.numCompletedTasks()), int(job.numFailedTasks())
        )
        if job.status().toString() == "RUNNING":
            self._running[number] = counts
        else:
            self._running.pop(number, None)
            self._ids_over.add(number)
            self._over = self._over.plus(counts)

    def _active_stages(self) -> Iterator[SparkStage]:
        tracker = self._context.statusTracker()
        place = describe_call(self._body_thread)
        for number in tracker.getActiveStageIds()[:_MOST_STAGES]:
            stage = tracker.getStageInfo(number)
            if stage is not None:
                yield SparkStage(
                    name=place or _telling(stage.name),
                    tasks=stage.numTasks,
                    tasks_done=stage.numCompletedTasks,
                )


def _next_job(context: SparkContext) -> int:
    return int(context._jsc.sc().dagScheduler().numTotalJobs())  # noqa: SLF001


def _telling(name: str) -> str:
    if any(word in name for word in _UNTELLING):
        return ""
    return name[:_LONGEST_NAME]


def describe_call(thread: int) -> str:
    """Which call of a thread's own code Spark works for, like `count at clean.py:41`.

    Spark knows no more than that Python called it.
    """
    frame: FrameType | None = sys._current_frames().get(thread)  # noqa: SLF001
    called, is_spark = "", False
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_spark_places()):
            is_spark = True
        elif not file.startswith(_PERAGO) and not _is_python(file):
            break
        called, frame = frame.f_code.co_name, frame.f_back
    if frame is None or not is_spark:
        return ""
    where = f"{called} at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
    return where.encode("utf-8", "backslashreplace").decode()[:_LONGEST_NAME]


@cache
def _spark_places() -> tuple[str, ...]:
    import py4j
    import pyspark

    return tuple(str(Path(str(package.__file__)).parent) for package in (pyspark, py4j))


def _is_python(file: str) -> bool:
    """Whether it is of the standard library, or has no file."""
    installed = "site-packages" in file or "dist-packages" in file
    return file.startswith("<frozen") or (
        file.startswith(sysconfig.get_path("stdlib")) and not installed
    )

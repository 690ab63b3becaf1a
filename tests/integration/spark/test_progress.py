"""How far a real Spark is, as somebody beside the body sees it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from perago.adapters.spark import LocalSparkSessions
from perago.domain.errors import EnvironmentUnfitError
from perago.domain.ids import ExecutionId
from perago.domain.spark_progress import SparkProgress
from perago.ports import SparkWatch
from tests.integration.spark.conftest import QUICK, Lease, an_attempt

pytestmark = pytest.mark.spark

PATIENCE = 60.0


def wait_for(gate: Path) -> Callable[[int], int]:
    """What a task does that takes until somebody opens the gate."""

    def wait(number: int) -> int:
        while not gate.exists():
            time.sleep(0.02)
        return number

    return wait


class Looker(threading.Thread):
    """Looks until so many stages are known and one of them runs, then opens the gate."""

    def __init__(self, watch: SparkWatch, gate: Path, *, stages: int) -> None:
        super().__init__(daemon=True)
        self._watch = watch
        self._gate = gate
        self._stages = stages
        self.seen: SparkProgress | None = None

    def run(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.seen is None and time.monotonic() < deadline:
            now = self._watch.look()
            if now.active and now.stages >= self._stages:
                self.seen = now
            time.sleep(0.02)
        self._gate.touch()


def test_a_stage_is_seen_with_the_line_that_asked_for_it(lease: Lease, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with lease() as held:
        context = held.session.sparkContext
        context.parallelize([1], 1).count()  # before anybody counts
        watch = held.watch()
        assert watch.look() == SparkProgress()
        looker = Looker(watch, gate, stages=2)
        looker.start()

        wait = wait_for(gate)
        numbers = context.parallelize(range(6), 3)
        numbers.map(lambda number: (number % 2, wait(number))).groupByKey(2).count()

        looker.join(PATIENCE)
        total = watch.total()

    assert looker.seen is not None
    (stage,) = looker.seen.active
    assert (stage.tasks, stage.tasks_done) == (3, 0)
    assert stage.name.startswith("count at test_progress.py:")
    assert (looker.seen.jobs, looker.seen.stages, looker.seen.stages_done) == (1, 2, 0)
    assert total == SparkProgress(jobs=1, stages=2, stages_done=2, tasks_done=5)


def test_rows_that_a_workspace_writes_are_named_after_the_body(
    lease: Lease, directories: tuple[Path, Path], tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with lease() as held:
        workspace = held.workspace(*directories)
        watch = held.watch()
        looker = Looker(watch, gate, stages=1)
        looker.start()
        wait = wait_for(gate)
        rows = held.session.range(4).mapInPandas(
            lambda batches: (batch for batch in batches if wait(1)), "id long"
        )

        workspace.write(rows, "t")

        looker.join(PATIENCE)
    assert looker.seen is not None
    assert looker.seen.active[0].name.startswith("write at test_progress.py:")
    assert "mapInPandas" not in looker.seen.describe()


def test_a_thousand_small_jobs_are_counted_whoever_looks(lease: Lease) -> None:
    with lease() as held:
        context = held.session.sparkContext
        watch = held.watch()
        numbers = context._jsc.parallelize([1])
        for number in range(1000):
            numbers.count()
            if number % 100 == 0:
                watch.look()

        total = watch.total()

    assert (total.jobs, total.stages_done, total.tasks_done) == (
        1000,
        1000,
        numbers.getNumPartitions() * 1000,
    )


def test_tasks_that_failed_are_counted(lease: Lease) -> None:
    with lease() as held:
        watch = held.watch()
        with pytest.raises(Py4JJavaError):
            held.session.sparkContext.parallelize([1], 1).map(lambda _: 1 // 0).count()

        total = watch.total()

    assert (total.jobs, total.stages_done, total.tasks_done) == (1, 0, 0)
    assert total.tasks_failed >= 1
    assert "failed task" in total.describe_total()


def test_jobs_of_the_bodys_own_threads_count(lease: Lease) -> None:
    with lease() as held:
        watch = held.watch()
        context = held.session.sparkContext
        thread = threading.Thread(target=lambda: context.parallelize([1], 1).count())
        thread.start()
        thread.join()

        assert watch.total() == SparkProgress(jobs=1, stages=1, stages_done=1, tasks_done=1)


def test_nothing_is_asked_of_a_spark_that_the_body_stopped(tmp_path: Path) -> None:
    sessions = LocalSparkSessions(QUICK, tmp_path / "scratch", tmp_path / "log")
    try:
        with sessions.lease(an_attempt(), ExecutionId("1" * 32)) as held:
            watch = held.watch()
            held.session.stop()

            with pytest.raises(EnvironmentUnfitError, match="stopped"):
                watch.look()
            with pytest.raises(EnvironmentUnfitError, match="stopped"):
                watch.total()
    finally:
        sessions.stop()

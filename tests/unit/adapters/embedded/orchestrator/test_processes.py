"""Many processes on one home, and processes that die."""

import multiprocessing
import os
import signal
import sqlite3
import threading
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from perago.adapters.embedded.orchestrator import EmbeddedOrchestrator
from perago.adapters.localfs.clock import SystemClock
from perago.domain.attempt import AttemptStatus
from perago.domain.ids import WorkerId
from perago.domain.outcome import Completed
from perago.domain.workflow import WorkflowStatus
from perago.testing.clock import FakeClock
from tests.unit.adapters.embedded.orchestrator.flows import poll, register, start

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def serve(home: Path, worker: str) -> list[str]:
    """Take and complete attempts until there are none; in a process of its own."""
    done: list[str] = []
    with EmbeddedOrchestrator(home, SystemClock()) as orchestrator:
        while tasks := orchestrator.poll(
            ["task"], worker_id=WorkerId(worker), count=2, wait_seconds=0.3
        ):
            for task in tasks:
                orchestrator.report(task.attempt, Completed(output={"worker": worker}))
                done.append(task.attempt.task_id)
    return done


def churn(home: Path) -> None:
    """Start, take and complete as fast as it goes, for ever."""
    with EmbeddedOrchestrator(home, SystemClock()) as orchestrator:
        register(orchestrator, steps=3, responseTimeoutSeconds=3600, retryCount=100)
        while True:
            start(orchestrator)
            for _ in range(3):
                for task in poll(orchestrator, count=2):
                    orchestrator.append_log(task.attempt.task_id, "took it")
                    orchestrator.report(task.attempt, Completed(output={"rows": 1}))


def test_many_processes_open_a_new_home_and_share_its_work(home: Path) -> None:
    with (
        EmbeddedOrchestrator(home, SystemClock()) as orchestrator,
        ProcessPoolExecutor(2, mp_context=SPAWN) as pool,
    ):
        register(orchestrator, steps=4)
        ids = [start(orchestrator) for _ in range(10)]
        shares = pool.map(serve, [home] * 2, ["a", "b"])
        served = Counter(task_id for share in shares for task_id in share)
        assert len(served) == 40
        assert set(served.values()) == {1}
        statuses = {orchestrator.workflow(workflow_id).status for workflow_id in ids}
        assert statuses == {WorkflowStatus.COMPLETED}


def test_many_open_a_home_that_does_not_exist_yet(home: Path) -> None:
    failures: list[BaseException] = []
    barrier = threading.Barrier(8)

    def open_and_close() -> None:
        barrier.wait()
        try:
            EmbeddedOrchestrator(home, SystemClock()).close()
        except BaseException as error:  # noqa: BLE001 - shown by the test
            failures.append(error)

    threads = [threading.Thread(target=open_and_close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_kill_at_any_moment_leaves_a_sound_database(home: Path) -> None:
    with EmbeddedOrchestrator(home, SystemClock()) as orchestrator:
        before = 0
        for number in range(3):
            process = SPAWN.Process(target=churn, args=(home,))
            process.start()
            while len(orchestrator.workflows(limit=before + 5)) < before + 5:
                assert process.is_alive()
                time.sleep(0.002)
            time.sleep(0.001 * number)
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            before = len(orchestrator.workflows(limit=10**6))
            assert_database_is_sound(home)
    finish_everything(home)


# Python 3.12 warns of a fork beside threads; the test's runner may have some.
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_fork_does_not_use_its_parents_connection(home: Path) -> None:
    with EmbeddedOrchestrator(home, SystemClock()) as orchestrator:
        register(orchestrator, steps=2)
        workflow_id = start(orchestrator)
        child = os.fork()
        if child == 0:  # no pytest in here: only an exit code leaves this process
            try:
                (task,) = poll(orchestrator)
                orchestrator.report(task.attempt, Completed(output={}))
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        first, second = orchestrator.workflow(workflow_id).tasks
        assert first.status is AttemptStatus.COMPLETED
        assert second.status is AttemptStatus.SCHEDULED
        assert len(poll(orchestrator)) == 1


def assert_database_is_sound(home: Path) -> None:
    with closing(sqlite3.connect(home / "orchestrator.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    with EmbeddedOrchestrator(home, SystemClock()) as orchestrator:
        for state in orchestrator.workflows(limit=10**6):
            seqs = [task.attempt.seq for task in state.tasks]
            assert seqs == list(range(1, len(seqs) + 1))
            assert all(task.status.is_terminal for task in state.tasks[:-1])
            assert state.status.is_terminal == state.tasks[-1].status.is_terminal


def finish_everything(home: Path) -> None:
    """What the killed ones held times out; then every workflow can be completed."""
    clock = FakeClock(start=SystemClock().now())
    with EmbeddedOrchestrator(home, clock, boot="a later one") as orchestrator:
        clock.advance(3600)
        while tasks := poll(orchestrator, count=10):
            for task in tasks:
                orchestrator.report(task.attempt, Completed(output={}))
        states = orchestrator.workflows(limit=10**6)
        assert {state.status for state in states} == {WorkflowStatus.COMPLETED}

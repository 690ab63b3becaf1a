"""One JVM for all tests of this folder; each test has a lease of its own."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from uuid import uuid4

import pytest

from perago.adapters.spark import LocalSparkLease, LocalSparkSessions, SparkSettings
from perago.adapters.spark.scratch import SCRATCH_TAG
from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId, TaskId, WorkflowId
from perago.ports import SparkSessions, SparkWorkspace

QUICK = SparkSettings(
    master="local[2]",
    memory_mb=1024,
    quick_start=True,
    conf={"spark.hadoop.test.secret": "hunter2"},
)

Lease = Callable[[], AbstractContextManager[LocalSparkLease]]


def an_attempt(name: str = "clean") -> Attempt:
    return Attempt(
        workflow_id=WorkflowId("workflow-1"),
        task_id=TaskId("task-1"),
        task_name=f"flights.{name}",
        reference_name=name,
    )


@pytest.fixture(scope="session")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSparkSessions]:
    root = tmp_path_factory.mktemp("spark sessions")
    sessions = LocalSparkSessions(QUICK, root / "scratch", root / "executor.log")
    # The type checker's word that the adapter keeps the port's contract.
    port: SparkSessions = sessions
    yield sessions
    port.stop()
    assert [path.name for path in (root / "scratch").iterdir()] == [SCRATCH_TAG.file_name]


@pytest.fixture
def lease(sessions: LocalSparkSessions) -> Lease:
    return lambda: sessions.lease(an_attempt(), ExecutionId(uuid4().hex))


@pytest.fixture
def directories(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("input", "output"):
        (tmp_path / name).mkdir()
    return tmp_path / "input", tmp_path / "output"


@pytest.fixture
def workspace(lease: Lease, directories: tuple[Path, Path]) -> Iterator[SparkWorkspace]:
    with lease() as held:
        yield held.workspace(*directories)

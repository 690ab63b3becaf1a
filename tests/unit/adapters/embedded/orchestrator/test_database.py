"""Trouble with the file, and homes that cannot be one."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from perago.adapters.embedded.orchestrator import EmbeddedOrchestrator
from perago.adapters.embedded.orchestrator.database import Database, explain_sqlite_error
from perago.adapters.embedded.orchestrator.engine_orchestrator import EngineOrchestrator
from perago.adapters.embedded.orchestrator.sqlite_instances import SqliteInstances
from perago.domain.attempt import AttemptStatus
from perago.domain.errors import (
    EnvironmentUnfitError,
    OrchestratorError,
    OrchestratorUnavailableError,
)
from perago.domain.outcome import Completed
from perago.domain.workflow import WorkflowStatus
from perago.testing.clock import FakeClock
from tests.unit.adapters.embedded.orchestrator.flows import poll, register, start


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


class TestTrouble:
    def test_a_lock_that_is_not_released_makes_it_unavailable_to_writers_only(
        self, home: Path, clock: FakeClock
    ) -> None:
        database = Database(home / "orchestrator.db", busy_timeout_seconds=0.01)
        orchestrator = EngineOrchestrator(SqliteInstances(database), clock)
        register(orchestrator)
        workflow_id = start(orchestrator)
        with closing(sqlite3.connect(home / "orchestrator.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(OrchestratorUnavailableError, match=r"orchestrator\.db is locked"):
                poll(orchestrator)
            assert orchestrator.workflow(workflow_id).status is WorkflowStatus.RUNNING
            other.execute("ROLLBACK")
        assert len(poll(orchestrator)) == 1
        database.close()

    def test_a_full_disk_undoes_the_call_and_nothing_else(
        self, home: Path, clock: FakeClock
    ) -> None:
        database = Database(home / "orchestrator.db")
        orchestrator = EngineOrchestrator(SqliteInstances(database), clock)
        register(orchestrator, steps=2)
        workflow_id = start(orchestrator)
        (task,) = poll(orchestrator)
        pages = database.connection.execute("PRAGMA page_count").fetchone()[0]
        database.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        large = Completed(output={"text": "x" * 1_000_000})
        with pytest.raises(OrchestratorUnavailableError, match="full") as refused:
            orchestrator.report(task.attempt, large)
        assert "disk space" in str(refused.value.hint)
        (only,) = orchestrator.workflow(workflow_id).tasks
        assert only.status is AttemptStatus.IN_PROGRESS
        database.connection.execute("PRAGMA max_page_count = 1000000")
        orchestrator.report(task.attempt, large)
        assert len(orchestrator.workflow(workflow_id).tasks) == 2
        database.close()


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """File permissions do not bind root; be somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


class TestUnfitHomes:
    @pytest.fixture
    def reachable(self, home: Path) -> Path:
        """A home whose parents any user may enter."""
        home.mkdir(mode=0o755)
        for directory in home.parents:
            if directory.stat().st_uid == os.geteuid() and directory != Path("/"):
                directory.chmod(directory.stat().st_mode | 0o111)
        return home

    def test_a_read_only_home_is_refused_by_name(self, reachable: Path, clock: FakeClock) -> None:
        reachable.chmod(0o555)
        with (
            as_ordinary_user(),
            pytest.raises(EnvironmentUnfitError, match=str(reachable)) as refused,
        ):
            EmbeddedOrchestrator(reachable, clock)
        assert "may write" in str(refused.value.hint)

    def test_a_home_that_became_read_only_is_refused_by_name(
        self, reachable: Path, clock: FakeClock
    ) -> None:
        EmbeddedOrchestrator(reachable, clock).close()
        (reachable / "orchestrator.db").chmod(0o444)
        reachable.chmod(0o555)
        with as_ordinary_user(), pytest.raises(EnvironmentUnfitError, match=r"orchestrator\.db"):
            EmbeddedOrchestrator(reachable, clock)

    def test_a_home_below_a_file_is_refused_by_name(self, tmp_path: Path, clock: FakeClock) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(EnvironmentUnfitError, match="file/home"):
            EmbeddedOrchestrator(tmp_path / "file" / "home", clock)

    def test_a_file_that_is_no_database_is_left_alone(self, home: Path, clock: FakeClock) -> None:
        home.mkdir()
        (home / "orchestrator.db").write_bytes(b"something else entirely" * 100)
        with pytest.raises(EnvironmentUnfitError, match="not a sound database"):
            EmbeddedOrchestrator(home, clock)
        assert (home / "orchestrator.db").read_bytes() == b"something else entirely" * 100

    def test_a_newer_schema_is_left_alone(self, home: Path, clock: FakeClock) -> None:
        EmbeddedOrchestrator(home, clock).close()
        with closing(sqlite3.connect(home / "orchestrator.db")) as connection:
            connection.execute("PRAGMA user_version = 99")
        with pytest.raises(EnvironmentUnfitError, match="schema 99"):
            EmbeddedOrchestrator(home, clock)

    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("SQLITE_BUSY", OrchestratorUnavailableError),
            ("SQLITE_FULL", OrchestratorUnavailableError),
            ("SQLITE_IOERR_WRITE", OrchestratorUnavailableError),
            ("SQLITE_READONLY_DBMOVED", EnvironmentUnfitError),
            ("SQLITE_CORRUPT", EnvironmentUnfitError),
            ("SQLITE_ERROR", OrchestratorError),
        ],
    )
    def test_every_sqlite_error_says_what_to_do(
        self, name: str, kind: type[OrchestratorError]
    ) -> None:
        error = sqlite3.OperationalError("the words of SQLite")
        error.sqlite_errorname = name
        explained = explain_sqlite_error(error, Path("home/orchestrator.db"))
        assert type(explained) is kind
        assert "home/orchestrator.db" in explained.message
        assert explained.hint


def test_the_file_is_for_its_user_alone_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        database = Database(tmp_path / "home" / "orchestrator.db")
        with database.writing():
            pass
        found = sorted((tmp_path / "home").iterdir())
        assert {path.stat().st_mode & 0o777 for path in found} == {0o600}
        database.close()
    finally:
        os.umask(before)

    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700

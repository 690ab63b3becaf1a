"""One JVM with S3A for all tests of this folder, and a repository of its own for each test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.adapters.lakefs import LakeFSWorkspaceStore
from perago.adapters.servers import ThrowawayLakeFS
from perago.adapters.spark import (
    DirectAccess,
    LocalSparkSessions,
    S3Gateway,
    SparkSettings,
)
from perago.domain.ids import RepositoryName
from perago.testing import MemoryOrchestrator
from perago.testing.clock import FakeClock
from tests.integration.direct.lake import MAIN, DirectLake
from tests.integration.lakefs.stranger import Stranger
from tests.lakefs_server import connection_to

EVENT_LOG = "events"


@pytest.fixture(scope="session")
def spark_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("direct")
    (place / EVENT_LOG).mkdir()
    return place


@pytest.fixture(scope="session")
def sessions(
    lakefs_server: ThrowawayLakeFS, spark_place: Path, s3a_jars: list[Path]
) -> Iterator[LocalSparkSessions]:
    connection = connection_to(lakefs_server)
    sessions = LocalSparkSessions(
        SparkSettings(
            master="local[2]",
            memory_mb=1024,
            quick_start=True,
            conf={
                "spark.ui.enabled": "true",
                "spark.ui.port": "0",
                "spark.eventLog.enabled": "true",
                "spark.eventLog.compress": "false",
                "spark.eventLog.rolling.enabled": "false",
                "spark.eventLog.dir": f"file:{spark_place / EVENT_LOG}",
            },
        ),
        spark_place / "scratch",
        spark_place / "executor.log",
        direct=DirectAccess(
            gateway=S3Gateway(
                endpoint=connection.endpoint,
                access_key_id=connection.access_key_id,
                secret_access_key=connection.secret_access_key,
            ),
            jars=lambda _java: s3a_jars,
        ),
    )
    yield sessions
    sessions.stop()


@pytest.fixture
def lake(
    lakefs_server: ThrowawayLakeFS, sessions: LocalSparkSessions, tmp_path: Path
) -> Iterator[DirectLake]:
    connection = connection_to(lakefs_server)
    repository = RepositoryName(f"direct-{uuid.uuid4().hex[:10]}")
    with LakeFSWorkspaceStore(connection) as store:
        store.create_repository(repository, branch=MAIN)
        with Stranger(connection, repository, MAIN) as stranger:
            yield DirectLake(
                store=store,
                sessions=sessions,
                orchestrator=MemoryOrchestrator(FakeClock()),
                stranger=stranger,
                connection=connection,
                repository=repository,
                root=tmp_path,
            )
        assert [one.name for one in store.branches(repository, hidden=True)] == [MAIN]

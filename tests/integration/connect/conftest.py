"""The shared Spark Connect server; each test has a repository of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.adapters.servers import ThrowawayLakeFS
from perago.adapters.spark import ConnectSettings, ConnectSparkSessions, TaskCode
from tests.integration.direct.lake import DirectLake, gateway_of, open_lake
from tests.spark_connect import ConnectServer


@pytest.fixture(scope="session")
def sessions(
    connect_server: ConnectServer,
    lakefs_server: ThrowawayLakeFS,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ConnectSparkSessions]:
    sessions = ConnectSparkSessions(
        ConnectSettings(remote=connect_server.remote),
        tmp_path_factory.mktemp("connect") / "scratch",
        gateway=gateway_of(lakefs_server),
        code=TaskCode(),
    )
    yield sessions
    sessions.stop()


@pytest.fixture
def lake(
    lakefs_server: ThrowawayLakeFS, sessions: ConnectSparkSessions, tmp_path: Path
) -> Iterator[DirectLake]:
    with open_lake(lakefs_server, sessions, tmp_path) as lake:
        yield lake

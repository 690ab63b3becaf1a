"""A Spark Connect server with S3A and Delta for this folder; each test has its repository."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.adapters.servers import ThrowawayLakeFS
from perago.adapters.spark import ConnectSettings, ConnectSparkSessions, TaskCode
from tests.integration.direct.lake import DirectLake, gateway_of, open_lake
from tests.integration.direct.test_direct_delta import DELTA_CONF
from tests.spark_connect import ConnectServer, spark_connect_server

EVENT_LOG = "events"


@pytest.fixture(scope="session")
def connect_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("connect")
    (place / EVENT_LOG).mkdir()
    return place


@pytest.fixture(scope="session")
def server(
    connect_place: Path, s3a_jars: list[Path], delta_jars: list[Path]
) -> Iterator[ConnectServer]:
    conf = {
        # As the page on Spark elsewhere has them.
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        **DELTA_CONF,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": f"file:{connect_place / EVENT_LOG}",
    }
    jars = [*s3a_jars, *delta_jars]
    with spark_connect_server(connect_place, jars=jars, conf=conf) as running:
        yield running


@pytest.fixture(scope="session")
def sessions(
    server: ConnectServer, lakefs_server: ThrowawayLakeFS, connect_place: Path
) -> Iterator[ConnectSparkSessions]:
    sessions = ConnectSparkSessions(
        ConnectSettings(remote=server.remote),
        connect_place / "scratch",
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

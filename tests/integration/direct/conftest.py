"""One JVM with S3A for all tests of this folder, and a repository of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.adapters.servers import ThrowawayLakeFS
from perago.adapters.spark import LocalSparkSessions, SparkSettings
from tests.integration.direct.lake import DirectLake, direct_sessions, open_lake

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
    settings = SparkSettings(
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
    )
    with direct_sessions(settings, lakefs_server, spark_place, s3a_jars) as sessions:
        yield sessions


@pytest.fixture
def lake(
    lakefs_server: ThrowawayLakeFS, sessions: LocalSparkSessions, tmp_path: Path
) -> Iterator[DirectLake]:
    with open_lake(lakefs_server, sessions, tmp_path) as lake:
        yield lake

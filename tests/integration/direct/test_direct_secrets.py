"""Where keys must not be: what Spark shows, keeps and logs; and what a body can still reach."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import urlopen

import pytest
from pydantic import BaseModel

from perago import RetryPolicy, SparkWorkspace, TaskControls, WorkspaceSpec, task
from perago.adapters.servers import ThrowawayLakeFS
from perago.adapters.spark import LocalSparkSessions
from perago.domain.outcome import Failed
from tests.integration.direct.lake import DirectLake, open_lake

pytestmark = [pytest.mark.lakefs, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

ONCE = TaskControls(retry=RetryPolicy(count=0))
PAGES = ("jobs/", "stages/", "storage/", "environment/", "executors/", "SQL/")
RESOURCES = ("jobs", "stages", "environment", "allexecutors", "sql?details=true")


class Params(BaseModel):
    """Where to put what Spark's pages show."""

    pages: str = ""
    other: str = ""


class Result(BaseModel):
    seen: int


def save_pages(workspace: SparkWorkspace, directory: Path) -> int:
    context = workspace.spark.sparkContext
    address = context.uiWebUrl
    api = f"{address}/api/v1/applications/{context.applicationId}"
    addresses = [f"{address}/{page}" for page in PAGES] + [f"{api}/{name}" for name in RESOURCES]
    for number, page in enumerate(addresses):
        with urlopen(page, timeout=30) as answer:
            (directory / str(number)).write_bytes(answer.read())
    return len(addresses)


@task(
    "spy",
    owner_email="data@example.com",
    workspace=WorkspaceSpec("out", access="direct"),
    controls=ONCE,
)
def spy(workspace: SparkWorkspace, params: Params) -> Result:
    spark = workspace.spark
    workspace.write(workspace.read.csv("a.csv", header=True), "t", partition_by=["id"])
    spark.sql(f"SELECT * FROM parquet.`{workspace.uri_out('t')}`").collect()
    return Result(seen=save_pages(workspace, Path(params.pages)))


@task(
    "trespass",
    owner_email="data@example.com",
    workspace=WorkspaceSpec("out", access="direct", read_only=True),
    controls=ONCE,
)
def trespass(workspace: SparkWorkspace, params: Params) -> Result:
    found = workspace.spark.read.text(params.other)
    return Result(seen=found.count())


def test_keys_are_in_nothing_that_spark_shows_keeps_or_logs(
    lake: DirectLake, spark_place: Path, tmp_path: Path
) -> None:
    lake.put({"out/a.csv": b"id,name\n1,a\n2,b\n"})

    attempted = lake.attempt(spy, Params(pages=str(tmp_path)))

    assert lake.files(attempted.output_ref, "out/t/")
    pages = [path for path in tmp_path.iterdir() if path.is_file()]
    assert len(pages) == len(PAGES) + len(RESOURCES)
    answers = [json.loads(path.read_text()) for path in pages if path.read_bytes()[:1] in b"[{"]
    assert len(answers) == len(RESOURCES)
    assert any("hadoopProperties" in answer for answer in answers)
    events = list((spark_place / "events").iterdir())
    assert events
    assert any(lake.repository in path.read_text() for path in events), "these are its events"
    for path in [*pages, *events, spark_place / "executor.log"]:
        text = path.read_text(errors="replace")
        assert lake.connection.secret_access_key not in text, path
        assert lake.connection.access_key_id not in text, path
    assert lake.connection.secret_access_key not in attempted.logged


def test_a_body_reaches_no_repository_but_its_own(
    lake: DirectLake,
    lakefs_server: ThrowawayLakeFS,
    sessions: LocalSparkSessions,
    tmp_path: Path,
) -> None:
    """Not even one that an earlier attempt of the same process had open."""
    with open_lake(lakefs_server, sessions, tmp_path / "another") as another:
        for each in (another, lake):
            each.put({"out/a.csv": b"id\n1\n"})
        theirs = Params(other=f"s3a://{another.repository}/main/out/a.csv")
        assert another.publish(trespass, theirs) == another.head

        attempted = lake.attempt(trespass, theirs)

    assert isinstance(attempted.outcome, Failed)
    assert "No AWS Credentials" in attempted.outcome.reason

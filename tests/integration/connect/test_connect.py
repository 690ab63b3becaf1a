"""What is different about a Spark Connect server: it is far away, and others use it too."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pandas as pd
import pytest
from pydantic import BaseModel
from pyspark.sql import SparkSession

from perago import RetryPolicy, SparkWorkspace, TaskControls, WorkspaceSpec, task
from perago.adapters.servers import ThrowawayLakeFS
from perago.adapters.servers.processes import choose_free_port
from perago.adapters.spark import ConnectSettings, ConnectSparkSessions
from perago.domain.attempt import Attempt
from perago.domain.errors import EnvironmentUnfitError
from perago.domain.ids import ExecutionId, TaskId, WorkflowId
from perago.domain.outcome import Failed
from perago.domain.workspace import Prefix
from perago.ports import DirectPlace
from tests.integration.direct.lake import DirectLake, gateway_of, open_lake
from tests.integration.direct.test_direct_delta import assert_a_merge_is_read_back
from tests.spark_connect import EVENT_LOG, ConnectServer, spark_connect_server

pytestmark = [pytest.mark.lakefs, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

ONCE = TaskControls(retry=RetryPolicy(count=0))
ATTEMPT = Attempt(
    workflow_id=WorkflowId("w"), task_id=TaskId("t"), task_name="try", reference_name="try_1"
)
UI = re.compile(r"service 'SparkUI' on port (\d+)")
PAGES = ("jobs/", "stages/", "storage/", "environment/", "executors/", "SQL/", "connect/")
RESOURCES = ("jobs", "stages", "environment", "allexecutors", "sql?details=true")


class Params(BaseModel):
    """`witness` is a directory where rows that are on their way leave a sign."""

    what: str = ""
    witness: str = ""


class Result(BaseModel):
    rows: int = 0


def double(batches: Iterable[pd.DataFrame]) -> Iterable[pd.DataFrame]:
    """Of a module that imports Perago, which the server's Python does not have."""
    for batch in batches:
        yield times_two(batch)


def times_two(batch: pd.DataFrame) -> pd.DataFrame:
    return batch * 2


@task(
    "sent_to_a_server",
    owner_email="data@example.com",
    workspace=WorkspaceSpec("out", access="direct"),
    controls=ONCE,
)
def go(workspace: SparkWorkspace, params: Params) -> Result:
    match params.what:
        case "abandon":
            next(workspace.spark.range(100_000).toLocalIterator())
        case "numbers":
            workspace.write(workspace.spark.range(10), "n")
        case "current":
            assert SparkSession.builder.getOrCreate() is workspace.spark
        case "reopen":
            workspace.spark.stop()
            SparkSession.builder.getOrCreate().range(1).collect()
        case "stop":
            workspace.spark.stop()
            return Result()
        case _:
            workspace.write(workspace.spark.range(10).mapInPandas(double, "id bigint"), "t")
    return Result(rows=workspace.spark.range(3).count())


def address_of_pages(server: ConnectServer) -> str:
    found = UI.search(server.log.read_text(errors="replace"))
    assert found is not None
    return f"http://127.0.0.1:{found[1]}"


def get(address: str) -> bytes:
    with urlopen(address, timeout=30) as answer:
        content: bytes = answer.read()
        return content


def resource(server: ConnectServer, name: str) -> bytes:
    api = f"{address_of_pages(server)}/api/v1/applications"
    (application,) = json.loads(get(api))
    return get(f"{api}/{application['id']}/{name}")


def test_functions_of_the_project_run_where_perago_is_not(
    lake: DirectLake, project_root: Path
) -> None:
    published = lake.publish(go, Params())

    assert lake.head == published
    with lake.sessions.lease(ATTEMPT, ExecutionId(uuid.uuid4().hex), direct=True) as lease:
        place = DirectPlace(
            repository=lake.repository, ref=published, prefix=Prefix.parse("out"), staging=None
        )
        table = lease.direct_workspace(place, lake.store).read.parquet("t")
        assert sorted(row["id"] for row in table.collect()) == list(range(0, 20, 2))
    (archive,) = [place for place in sys.path if place.endswith("task-code.zip")]
    own = sys.path.index(str(project_root))
    assert own < sys.path.index(archive), "no module of this process comes from the copy"


def test_keys_are_in_nothing_that_the_server_shows_keeps_or_logs(
    lake: DirectLake, connect_server: ConnectServer
) -> None:
    lake.publish(go, Params())

    pages = address_of_pages(connect_server)
    shown = {page: get(f"{pages}/{page}") for page in PAGES}
    shown |= {name: resource(connect_server, name) for name in RESOURCES}
    events = b"".join(
        path.read_bytes() for path in connect_server.log.with_name(EVENT_LOG).iterdir()
    )
    assert lake.repository.encode() in events, "these are its events"
    assert b"sent_to_a_server" in shown["connect/"], "its work bears the task's name"
    shown |= {"events": events, "log": connect_server.log.read_bytes()}
    for name, content in shown.items():
        assert lake.connection.secret_access_key.encode() not in content, name
        assert lake.connection.access_key_id.encode() not in content, name


def test_a_delta_table_is_merged_and_read_back(lake: DirectLake) -> None:
    """On a server that was started with Delta."""
    assert_a_merge_is_read_back(lake)


def test_rows_that_nobody_fetches_keep_no_attempt(lake: DirectLake) -> None:
    assert lake.publish(go, Params(what="abandon")) == lake.head


def test_the_current_session_is_the_attempts(lake: DirectLake) -> None:
    assert lake.publish(go, Params(what="current")) == lake.head


def test_a_body_that_stopped_its_session_is_told_so_and_the_next_has_one(lake: DirectLake) -> None:
    attempted = lake.attempt(go, Params(what="stop"))
    assert isinstance(attempted.outcome, Failed)
    assert "the body stopped its Spark session" in attempted.outcome.reason
    assert lake.publish(go, Params()) == lake.head


def test_a_session_that_a_body_opens_by_itself_ends_with_the_attempt(lake: DirectLake) -> None:
    """Else the next attempt would be given it, with all that it holds."""
    attempted = lake.attempt(go, Params(what="reopen"))
    assert isinstance(attempted.outcome, Failed)
    assert lake.publish(go, Params(what="current")) == lake.head


def test_a_session_without_keys_reads_nothing_that_another_opened(
    lake: DirectLake, connect_server: ConnectServer, tmp_path: Path
) -> None:
    head = lake.publish(go, Params())
    keyless = ConnectSparkSessions(
        ConnectSettings(remote=connect_server.remote), tmp_path / "scratch"
    )
    with keyless.lease(ATTEMPT, ExecutionId("1"), direct=True) as lease:
        for name, value in {
            "access.key": "AKIANOBODY",
            "secret.key": "nothing",
            "endpoint": lake.connection.endpoint,
            "path.style.access": "true",
        }.items():
            lease.session.conf.set(f"fs.s3a.bucket.{lake.repository}.{name}", value)
        with pytest.raises(Exception, match=r"AccessDenied|Forbidden|403"):
            lease.session.read.parquet(f"s3a://{lake.repository}/{head}/out/t").count()
    keyless.stop()


def test_a_server_may_have_the_keys_itself(
    lakefs_server: ThrowawayLakeFS, s3a_jars: list[Path], tmp_path: Path
) -> None:
    options = {
        "endpoint": lakefs_server.endpoint,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "access.key": lakefs_server.access_key_id,
        "secret.key": lakefs_server.secret_access_key,
    }
    conf = {f"spark.hadoop.fs.s3a.{name}": value for name, value in options.items()}
    with spark_connect_server(tmp_path / "server", jars=s3a_jars, conf=conf) as trusted:
        sessions = ConnectSparkSessions(
            ConnectSettings(remote=trusted.remote), tmp_path / "scratch"
        )
        with open_lake(lakefs_server, sessions, tmp_path / "lake") as lake:
            published = lake.publish(go, Params(what="numbers"))
            assert lake.files(published, "out/n/")
        sessions.stop()


def test_local_files_are_read_and_written_where_the_server_sees_them(
    sessions: ConnectSparkSessions, tmp_path: Path
) -> None:
    into, out = tmp_path / "in", tmp_path / "out"
    for place in (into, out):
        place.mkdir()
        (place / "a.csv").write_text("id\n1\n2\n")
    with sessions.lease(ATTEMPT, ExecutionId("2")) as lease:
        workspace = lease.workspace(into, out)
        workspace.write(workspace.read.csv("a.csv", header=True), "t", sort_by=["id"])
        assert workspace.read_staged.parquet("t").count() == 2
    names = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    assert names == ["a.csv", "t/part-00000.snappy.parquet"]


def running_jobs(server: ConnectServer) -> list[object]:
    found: list[object] = json.loads(resource(server, "jobs?status=running"))
    return found


KILLED = """
import sys
from pathlib import Path

from perago.adapters.spark import ConnectSettings, ConnectSparkSessions
from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId, TaskId, WorkflowId

attempt = Attempt(
    workflow_id=WorkflowId("w"), task_id=TaskId("t"), task_name="try", reference_name="try_1"
)
sessions = ConnectSparkSessions(ConnectSettings(remote=sys.argv[1]), Path(sys.argv[2]) / "scratch")
with sessions.lease(attempt, ExecutionId("1")) as lease:
    lease.session.range(0, 10**13, 1, 4).selectExpr("sum(id % 7)").collect()
"""


def test_what_a_killed_process_had_begun_is_ended(
    connect_server: ConnectServer, tmp_path: Path
) -> None:
    """The server alone would go on for minutes."""
    wait_until(lambda: not running_jobs(connect_server))  # of an earlier test
    said = tmp_path / "said"
    with said.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, connect_server.remote, str(tmp_path)],
            stderr=stderr,
            start_new_session=True,
        )
    try:
        wait_until(lambda: bool(running_jobs(connect_server)) or process.poll() is not None)
        assert process.poll() is None, f"it ended by itself: {said.read_text()}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    wait_until(lambda: not running_jobs(connect_server))


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_server_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    remote = f"sc://127.0.0.1:{choose_free_port()}"
    sessions = ConnectSparkSessions(
        ConnectSettings(remote=f"{remote}/;token=hidden"), tmp_path / "scratch"
    )
    told = f"no Spark Connect server answers at {remote}\n"
    with (
        pytest.raises(EnvironmentUnfitError, match=told),
        sessions.lease(ATTEMPT, ExecutionId("1")),
    ):
        pass


def test_a_setting_of_the_server_itself_is_refused(
    connect_server: ConnectServer, tmp_path: Path
) -> None:
    settings = ConnectSettings(remote=connect_server.remote, conf={"spark.driver.memory": "2g"})
    sessions = ConnectSparkSessions(settings, tmp_path / "scratch")
    with (
        pytest.raises(EnvironmentUnfitError, match=r"gave no session: .*spark\.driver\.memory"),
        sessions.lease(ATTEMPT, ExecutionId("1")),
    ):
        pass
    sessions.stop()


def test_a_server_without_the_jars_is_told_so(
    lakefs_server: ThrowawayLakeFS, tmp_path: Path
) -> None:
    with spark_connect_server(tmp_path / "server") as bare:
        sessions = ConnectSparkSessions(
            ConnectSettings(remote=bare.remote),
            tmp_path / "scratch",
            gateway=gateway_of(lakefs_server),
        )
        with (
            pytest.raises(EnvironmentUnfitError, match=r"lacks a jar .*S3AFileSystem"),
            sessions.lease(ATTEMPT, ExecutionId("1"), direct=True),
        ):
            pass
        sessions.stop()

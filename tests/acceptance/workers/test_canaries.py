"""Secrets in every setting of a worker on the real servers: none of them is left anywhere.

The bodies tell whatever they find in every way that they have, and besides that a file of all these
secrets, as if they had come by them elsewhere.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from perago.adapters.environment import is_own
from perago.adapters.servers import ThrowawayLakeFS
from perago.domain.workflow import WorkflowStatus
from tests.acceptance.workers.key_gate import KeyGate, key_gate
from tests.acceptance.workers.processes import WorkerProcess, wait_until
from tests.acceptance.workers.site import Site, open_site
from tests.conductor_server import SharedConductor
from tests.unit.adapters.telemetry.collector import Collector, running_collector

pytestmark = [
    pytest.mark.conductor,
    pytest.mark.lakefs,
    pytest.mark.spark,
    pytest.mark.slow,
]

REASON = "what was found: "


def canary(name: str) -> str:
    return f"canary-{name}-{uuid.uuid4().hex}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Canaries:
    """A secret for every place that can hold one; `lake` is the real server's."""

    lake: str
    conductor: str = field(default_factory=lambda: canary("conductor"))
    token: str = field(default_factory=lambda: canary("token"))
    hadoop: str = field(default_factory=lambda: canary("hadoop"))
    named: str = field(default_factory=lambda: canary("named"))
    key: str = field(default_factory=lambda: canary("key"))
    address: str = field(default_factory=lambda: canary("address"))
    lakectl: str = field(default_factory=lambda: canary("lakectl"))
    sdk: str = field(default_factory=lambda: canary("sdk"))
    headers: str = field(default_factory=lambda: canary("headers"))

    @property
    def all(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in self.__slots__}

    def settings(self, gate: KeyGate, collector: Collector, directory: Path) -> dict[str, str]:
        events = directory / "events"
        events.mkdir()
        conf = {
            "spark.hadoop.my.own": self.hadoop,
            "spark.my.password": self.named,
            "spark.hadoop.fs.s3a.bucket.other.secret.key": self.key,
            "spark.hadoop.my.address": f"jdbc:x://joe:{self.address}@host/db",
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.dir": f"file:{events}",
        }
        return {
            "PERAGO_CONDUCTOR_URL": gate.url,
            "PERAGO_CONDUCTOR_AUTH_KEY": gate.key,
            "PERAGO_CONDUCTOR_AUTH_SECRET": self.conductor,
            "PERAGO_SPARK_CONF": json.dumps(conf),
            "PERAGO_SPARK_MASTER": "local[2]",
            "PERAGO_SPARK_MEMORY_MB": "1024",
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": self.lakectl,
            "CONDUCTOR_AUTH_SECRET": self.sdk,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
            "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={self.headers}",
        }

    def assert_not_in(self, text: str, where: object) -> None:
        told = [name for name, secret in self.all.items() if secret in text]
        assert not told, (told, where)


@pytest.fixture
def site(
    conductor_server: SharedConductor, lakefs_server: ThrowawayLakeFS, tmp_path: Path
) -> Iterator[Site]:
    place = tmp_path / "site"
    with open_site(conductor_server.endpoint, lakefs_server, place, "peeking") as site:
        yield site


def test_no_secret_of_a_worker_is_left_anywhere(
    site: Site, s3a_jars: list[Path], lakefs_server: ThrowawayLakeFS
) -> None:
    canaries = Canaries(lake=lakefs_server.secret_access_key)
    # No body comes by a token that a server gave; where Perago has it must be silent, too.
    found = [secret for name, secret in canaries.all.items() if name != "token"]
    (site.directory / "secrets.txt").write_text("\n".join(found))
    with (
        key_gate(
            site.conductor_url, key="who", secret=canaries.conductor, token=canaries.token
        ) as gate,
        running_collector() as collector,
    ):
        settings = canaries.settings(gate, collector, site.directory)
        settings["PERAGO_SPARK_JARS"] = ",".join(map(str, s3a_jars))
        with site.worker("-j", "2", "--http-port", "0", module="peeking", **settings) as worker:
            worker.wait_until_ready()
            runs = [site.start(task, task) for task in ("look", "tell", "tell_spark")]
            wait_until((site.directory / "ready").exists, "Spark's pages were kept", 120)
            seen = look_at_processes(worker, canaries)
            pages = read_probes(worker)
            (site.directory / "go").touch()
            states = [site.finish(run) for run in runs]
            worker.stop()
        said = [
            site.run(*command, runs[-1], "--json", **settings).out
            for command in (("status",), ("logs",))
        ]
        said.append(site.run("check", str(site.module("peeking")), "--settings", **settings).out)
    assert gate.logins, "the key was of use"
    assert {"supervisor", "executor", "java"} <= seen
    looked, told, spark = states
    assert looked.status is WorkflowStatus.COMPLETED, looked.reason
    for failed in (told, spark):
        (attempt,) = failed.tasks
        assert attempt.reason is not None
        assert REASON in attempt.reason, "it failed as it should"
    # What only a worker says.
    canaries.assert_not_in(worker.said, "the worker's own lines")
    for page in (*pages, *said):
        assert page
        canaries.assert_not_in(page, page)
    # What Conductor has: payloads, reasons and task logs.
    for run in runs:
        for path in (f"workflow/{run}?includeTasks=true", *log_paths(site, run)):
            canaries.assert_not_in(read_from(site, path), path)
    # What the collector got.
    assert collector.spans
    assert collector.metrics
    canaries.assert_not_in(str(collector.traces) + str(collector.metrics), "telemetry")
    # What lakeFS has.
    for branch in ("look", "tell", "tell_spark"):
        canaries.assert_not_in(str(site.history(branch)), branch)
        for path in site.files(branch, "out/"):
            canaries.assert_not_in(site.read(branch, path), path)
    # What Spark shows and keeps.
    assert len(list((site.directory / "pages").iterdir())) == 7
    assert list((site.directory / "events").iterdir())
    # Everything on this machine's disk: logs, scratch, event log and pages.
    for file in site.directory.rglob("*"):
        if file.is_file() and file.name != "secrets.txt":
            canaries.assert_not_in(file.read_bytes().decode("latin-1"), file)


def look_at_processes(worker: WorkerProcess, canaries: Canaries) -> set[str]:
    """What /proc shows of the worker and of all that it started; which kinds there are."""
    kinds = set()
    for number, process in enumerate(worker.tree):
        try:
            command = " ".join(process.cmdline())
            variables = (Path("/proc") / str(process.pid) / "environ").read_text(errors="replace")
        except (psutil.Error, OSError):
            continue
        canaries.assert_not_in(command.replace("\n", " "), command)
        canaries.assert_not_in(variables, command)
        if number == 0:
            kinds.add("supervisor")
            continue
        names = {entry.partition("=")[0] for entry in variables.split("\0")}
        assert not {name for name in names if is_own(name)}, command
        kinds.add("java" if "java" in command.split(" ")[0] else "executor")
    return kinds


def read_probes(worker: WorkerProcess) -> list[str]:
    (port,) = {
        str(entry["message"]).rpartition(" ")[2]
        for entry in worker.entries
        if str(entry.get("message")).startswith("probes and metrics on port")
    }
    found = []
    for path in ("livez", "readyz", "metrics"):
        with urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as answer:
            found.append(answer.read().decode())
    return found


def read_from(site: Site, path: str) -> str:
    with urlopen(f"{site.conductor_url}/api/{path}", timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def log_paths(site: Site, run: str) -> list[str]:
    tasks = json.loads(read_from(site, f"workflow/{run}?includeTasks=true"))["tasks"]
    return [f"tasks/{task['taskId']}/log" for task in tasks]

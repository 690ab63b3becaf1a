"""What a worker says of itself over HTTP, to whoever probes and measures it."""

from __future__ import annotations

import json
import re
import signal
from http.client import HTTPConnection
from pathlib import Path

import pytest

from perago.domain.attempt import AttemptStatus
from tests.acceptance.workers.processes import WorkerProcess, wait_until
from tests.acceptance.workers.site import Site

pytestmark = [pytest.mark.conductor, pytest.mark.lakefs, pytest.mark.timeout(900)]


class Probes:
    """The endpoint of one worker."""

    def __init__(self, worker: WorkerProcess) -> None:
        worker.wait_for("probes and metrics on port")
        found = re.search(r"probes and metrics on port (\d+)", worker.said)
        assert found is not None
        self._port = int(found[1])

    def get(self, path: str) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def is_ready(self) -> bool:
        return self.get("/readyz")[0] == 200


def test_a_worker_tells_how_it_is_and_what_it_did(site: Site, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with site.worker("--http-port", "0", PERAGO_SHUTDOWN_GRACE_SECONDS="3600") as worker:
        probes = Probes(worker)
        wait_until(probes.is_ready, "it is ready")
        site.complete([site.start_raw("plain", "first", {"params": {}})])
        waiting = site.start("step", "waits", {"gate": str(gate)})
        site.wait_for_status(waiting, AttemptStatus.IN_PROGRESS)
        wait_until(lambda: _state(probes)["executors_busy"] == 1, "it is busy")
        metrics = probes.get("/metrics")

        worker.signal(signal.SIGTERM)
        wait_until(lambda: not probes.is_ready(), "one that drains is not ready")
        draining, alive = json.loads(probes.get("/readyz")[1]), probes.get("/livez")
        gate.touch()
        site.finish(waiting)
        assert worker.end() == 0, worker.said

    assert draining["worker"]["is_draining"] is True
    assert alive[0] == 200, "a restart would not help one that drains"
    assert metrics[0] == 200
    assert re.search(rf'^perago_\w+{{[^}}]*"plain_{site.mark}"', metrics[1], re.MULTILINE)


def _state(probes: Probes) -> dict[str, object]:
    state: dict[str, object] = json.loads(probes.get("/readyz")[1])["worker"]
    return state

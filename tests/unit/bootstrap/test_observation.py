"""Everything that watches a worker, opened at once, as `perago start` does."""

from __future__ import annotations

import http.client
import json
import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from perago.bootstrap import ObservationOptions, open_observation
from perago.domain.errors import EnvironmentUnfitError
from perago.domain.events import Event
from perago.domain.outcome import Completed, Phase
from perago.domain.redaction import Redactor
from perago.testing import FakeClock
from tests.unit.runtime.executions import an_execution
from tests.unit.runtime.test_health import WELL
from tests.unit.runtime.told_attempt import ToldAttempt


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    root.handlers[:] = []  # setting up closes those that it finds: pytest's must survive
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


class Broken:
    def handle(self, event: Event) -> None:
        raise RuntimeError("a bug")


def ask(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_one_attempt_is_a_log_line_and_a_metric(capfd: pytest.CaptureFixture[str]) -> None:
    options = ObservationOptions(
        log_level="INFO", log_format="json", redactor=Redactor(("hunter22",)), http_port=0
    )
    execution = an_execution()
    with open_observation(options, FakeClock(), environment={}, also=[Broken()]) as observation:
        observation.health.state = replace(WELL, turned_at=0, poller_turned_at=0, answered_at=0)
        told = ToldAttempt(observation.events, execution)
        told.start()
        told.enter(Phase.BODY)
        told.leave(1.0)
        told.end(Completed(output={"result": {}}))
        assert observation.http_port is not None
        assert ask(observation.http_port, "/readyz")[0] == 200
        status, metrics = ask(observation.http_port, "/metrics")

    assert status == 200
    assert "perago_attempts_total{" in metrics
    assert 'state="busy"} 1.0' in metrics
    broken, summary = (json.loads(line) for line in capfd.readouterr().err.splitlines())
    assert broken["message"].startswith("Broken failed")
    assert (summary["summary"]["status"], summary["workflow"]) == ("COMPLETED", "wf-1")


def test_probes_are_told_no_secret() -> None:
    options = ObservationOptions(log_level="INFO", redactor=Redactor(("hunter22",)), http_port=0)
    with open_observation(options, FakeClock(), environment={}) as observation:
        observation.health.state = replace(
            WELL, turned_at=0, poller_turned_at=0, answered_at=None, poll_error="no hunter22"
        )
        assert observation.http_port is not None
        answers = [ask(observation.http_port, path)[1] for path in ("/livez", "/readyz")]

    assert all("no (not shown)" in answer for answer in answers)
    assert not any("hunter22" in answer for answer in answers)


def test_nothing_is_opened_unless_it_is_configured() -> None:
    options = ObservationOptions(log_level="INFO", log_format="console")
    with open_observation(options, FakeClock(), environment={}) as observation:
        assert observation.http_port is None
        assert observation.log_stream.log_format == "console"


def test_a_taken_port_ends_the_start() -> None:
    options = ObservationOptions(log_level="INFO", http_port=0)
    with (
        open_observation(options, FakeClock(), environment={}) as first,
        pytest.raises(EnvironmentUnfitError, match="cannot listen"),
        open_observation(
            replace(options, http_port=first.http_port),
            FakeClock(),
            environment={"OTEL_SDK_DISABLED": "true"},
        ),
    ):
        pass

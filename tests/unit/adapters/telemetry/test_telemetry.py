"""What a real collector and a real scraper get of a worker."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from prometheus_client.parser import text_string_to_metric_families

from perago.adapters.telemetry import (
    ExecutorCount,
    Telemetry,
    TelemetryOptions,
    choose_exports,
    open_telemetry,
    trace_id_of,
)
from perago.domain.changes import ChangeCount
from perago.domain.events import PhaseEnded, Polled, PollFailed
from perago.domain.execution import Execution
from perago.domain.ids import WorkflowId
from perago.domain.outcome import Completed, Failed, Phase
from perago.runtime.events import FanOut
from tests.unit.adapters.telemetry.collector import attributes_of, running_collector
from tests.unit.runtime.executions import an_execution
from tests.unit.runtime.told_attempt import ToldAttempt


@contextmanager
def telemetry(
    monkeypatch: pytest.MonkeyPatch, *, http_port: bool = False, **variables: str
) -> Iterator[Telemetry]:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    options = TelemetryOptions(
        exports=choose_exports(variables, has_http_port=http_port),
        worker_id="worker-7",
        version="1.2.3",
        executors=lambda: ExecutorCount(wanted=3, alive=2, busy=1),
        environment=variables,
    )
    with open_telemetry(options) as opened:
        yield opened


def complete(opened: Telemetry, execution: Execution) -> None:
    told = ToldAttempt(FanOut(opened.handlers), execution)
    told.start()
    for phase, objects in ((Phase.DOWNLOAD, 3), (Phase.BODY, 0), (Phase.STAGE, 2)):
        told.enter(phase)
        if objects:
            told.move(objects, objects * 100)
        told.leave(0.25)
    output = Completed(output={"workspace": {"ref": "beef"}, "result": {}})
    told.end(output, ChangeCount(written=2, deleted=1))


def die(opened: Telemetry, execution: Execution) -> None:
    told = ToldAttempt(FanOut(opened.handlers), execution)
    told.start()
    told.enter(Phase.BODY)
    told.miss_heartbeat("no answer")
    told.lose_lease("stale")
    told.die("killed by SIGKILL")
    told.end(Failed(reason="the executor died", phase=Phase.BODY))


def test_attempts_and_phases_are_spans_of_one_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = an_execution("t-1"), an_execution("t-2")
    with running_collector() as collector:
        with telemetry(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint) as opened:
            complete(opened, first)
            die(opened, second)
        spans, resource = collector.spans, collector.resource

    attempts = {str(attributes_of(s)["perago.task.id"]): s for s in spans if not s.parent_span_id}
    assert attempts.keys() == {"t-1", "t-2"}
    assert {s.trace_id for s in spans} == {trace_id_of(WorkflowId("wf-1")).to_bytes(16, "big")}
    done = attempts["t-1"]
    phases = [s for s in spans if s.parent_span_id == done.span_id]
    assert [s.name for s in phases] == ["download", "body", "stage"]
    for span in phases:
        assert span.end_time_unix_nano - span.start_time_unix_nano == 250_000_000
    ends = [done.start_time_unix_nano, *(s.end_time_unix_nano for s in phases)]
    assert all(end <= s.start_time_unix_nano for end, s in zip(ends, phases, strict=False))
    assert done.end_time_unix_nano >= ends[-1]
    assert attributes_of(done) == {
        "perago.workflow.id": "wf-1",
        "perago.task.id": "t-1",
        "perago.task.name": "clean",
        "perago.task.reference": "clean_ref",
        "perago.task.retry": 2,
        "perago.task.iteration": 0,
        "perago.execution.id": first.execution_id,
        "perago.input_ref": "c0ffee",
        "perago.staging_branch": first.staging_branch,
        "perago.files.written": 2,
        "perago.files.deleted": 1,
        "perago.output_ref": "beef",
        "perago.outcome": "COMPLETED",
    }
    assert resource["service.name"] == "perago-worker"
    assert resource["service.instance.id"] == "worker-7"
    assert resource["service.version"] == "1.2.3"
    dead = attempts["t-2"]
    assert dead.status.code == Status.STATUS_CODE_ERROR
    assert dead.status.message == "the executor died"
    assert [e.name for e in dead.events] == ["heartbeat failed", "lease lost", "executor died"]
    (body,) = [s for s in spans if s.parent_span_id == dead.span_id]
    assert body.status.code == Status.STATUS_CODE_ERROR


def test_a_span_ends_with_its_own_phase_only(monkeypatch: pytest.MonkeyPatch) -> None:
    execution = an_execution()
    with running_collector() as collector:
        with telemetry(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint) as opened:
            handler = FanOut(opened.handlers)
            told = ToldAttempt(handler, execution)
            told.start()
            told.enter(Phase.BODY)
            late = PhaseEnded(attempt=execution.attempt, phase=Phase.VALIDATE, seconds=60.0)
            handler.handle(late)
            told.leave(0.25)
            told.end(Completed(output={"result": {}}))
        spans = collector.spans

    (body,) = [span for span in spans if span.parent_span_id]
    assert body.name == "body"
    assert body.end_time_unix_nano - body.start_time_unix_nano == 250_000_000


def test_metrics_reach_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_collector() as collector:
        with telemetry(
            monkeypatch,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint,
            OTEL_TRACES_EXPORTER="none",
            OTEL_SERVICE_NAME="my-workers",
        ) as opened:
            complete(opened, an_execution())
        metrics, traces = collector.last_metrics, collector.traces
        resource = attributes_of(collector.metrics[-1].resource_metrics[0].resource)

    assert traces == []
    assert resource["service.name"] == "my-workers"
    (point,) = metrics["perago.attempts"].sum.data_points
    assert attributes_of(point) == {"task": "clean", "status": "COMPLETED"}
    assert point.as_int == 1
    sizes = {
        str(attributes_of(p)["direction"]): p.as_int
        for p in metrics["perago.transfer.size"].sum.data_points
    }
    assert sizes == {"down": 300, "up": 200}
    executors = {
        str(attributes_of(p)["state"]): p.as_int
        for p in metrics["perago.executors"].gauge.data_points
    }
    assert executors == {"wanted": 3, "alive": 2, "busy": 1}


def test_a_scraper_gets_every_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    with telemetry(monkeypatch, http_port=True) as opened:
        complete(opened, an_execution("t-1"))
        die(opened, an_execution("t-2"))
        polls = FanOut(opened.handlers)
        for event in (Polled(tasks=5), Polled(tasks=0), PollFailed(reason="no answer")):
            polls.handle(event)
        assert opened.page is not None
        page = opened.page.render().decode()

    samples = {
        (s.name, s.labels.get("task"), s.labels.get("status") or s.labels.get("phase")): s.value
        for family in text_string_to_metric_families(page)
        for s in family.samples
        if "le" not in s.labels and "direction" not in s.labels and "state" not in s.labels
    }
    assert samples["perago_attempts_total", "clean", "COMPLETED"] == 1
    assert samples["perago_attempts_total", "clean", "FAILED"] == 1
    assert samples["perago_attempt_duration_seconds_count", "clean", "FAILED"] == 1
    assert samples["perago_phase_duration_seconds_sum", "clean", "body"] == 0.25
    assert samples["perago_executor_deaths_total", None, None] == 1
    assert samples["perago_polls_total", None, None] == 2
    assert samples["perago_polled_tasks_total", None, None] == 5
    assert samples["perago_poll_errors_total", None, None] == 1
    assert samples["perago_heartbeat_errors_total", None, None] == 1
    assert samples["perago_leases_lost_total", None, None] == 1
    assert 'perago_transfer_size_bytes_total{direction="up"' in page
    assert 'perago_transfer_objects_total{direction="down"' in page
    assert 'state="busy"' in page
    assert "process_resident_memory_bytes" in page


class RootLines(logging.Handler):
    """What a worker's log gets. (pytest's own handler also listens where nothing propagates.)"""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.loggers: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.loggers.append(record.name)


@pytest.fixture
def root_lines() -> Iterator[RootLines]:
    handler = RootLines()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def test_a_collector_that_refuses_costs_one_warning(
    monkeypatch: pytest.MonkeyPatch, root_lines: RootLines
) -> None:
    with running_collector(status=400) as collector:
        with telemetry(
            monkeypatch,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint,
            OTEL_BSP_MAX_QUEUE_SIZE="10",
            OTEL_BSP_MAX_EXPORT_BATCH_SIZE="5",
        ) as opened:
            for number in range(100):
                complete(opened, an_execution(f"t-{number}"))
        requests = collector.requests

    assert requests > 1
    assert root_lines.loggers == ["perago.telemetry"]


def test_a_collector_that_is_away_neither_blocks_nor_fails(
    monkeypatch: pytest.MonkeyPatch, root_lines: RootLines
) -> None:
    with running_collector() as collector:
        endpoint = collector.endpoint
    # Nobody listens there now; the SDK would go on trying for longer than this test may take.
    with telemetry(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint) as opened:
        for number in range(1000):
            complete(opened, an_execution(f"t-{number}"))

    assert root_lines.loggers == ["perago.telemetry"]
    # Told to stop, what still tried does so at once.
    assert [thread.name for thread in threading.enumerate() if "telemetry" in thread.name] == []


def test_the_trace_id_is_what_the_documentation_says() -> None:
    expected = hashlib.sha256(b"perago-workflow:wf-1").hexdigest()[:32]

    assert f"{trace_id_of(WorkflowId('wf-1')):032x}" == expected

"""Opens and closes a worker's telemetry.

Invariant: a collector that is slow, away or wrong costs the worker a bounded queue and one warning
now and then, and delays its end by a few seconds at most.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from perago.adapters.telemetry.options import TelemetryOptions
from perago.adapters.telemetry.quiet_errors import make_errors_seldom
from perago.domain.errors import EnvironmentUnfitError
from perago.domain.events import EventHandler

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    from perago.adapters.telemetry.spans import WorkflowTraceIds

_CLOSE_SECONDS = 3.0
"""How long the last spans and metrics may take to be sent."""


_LEAVE_SECONDS = 0.5
"""How long one that was told to stop trying may take to hear it."""


class _Exporter(Protocol):
    """What sends to a collector, and tries again for a minute unless it is told not to."""

    def shutdown(self) -> None:
        """Stop trying."""


class PrometheusPage:
    """All metrics of this process in Prometheus's text format."""

    def __init__(self) -> None:
        from prometheus_client import CONTENT_TYPE_LATEST

        self.content_type = CONTENT_TYPE_LATEST

    def render(self) -> bytes:
        """The metrics as they are now."""
        from prometheus_client import REGISTRY, generate_latest

        return generate_latest(REGISTRY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """Turns a worker's events into spans and metrics, and answers a scraper.

    No handler waits: spans go to a bounded queue, metrics are sums in memory.
    """

    handlers: tuple[EventHandler, ...]
    page: PrometheusPage | None


@contextmanager
def open_telemetry(options: TelemetryOptions) -> Iterator[Telemetry]:
    """Export until the end of the block; then send the rest, within a few seconds."""
    from perago.adapters.telemetry.metrics import Instruments
    from perago.adapters.telemetry.spans import AttemptSpans, WorkflowTraceIds

    make_errors_seldom()
    ids = WorkflowTraceIds()
    handlers: list[EventHandler] = []
    closing: list[Callable[[], None]] = []
    exporters: list[_Exporter] = []
    with _translated():
        resource = _resource(options)
        if options.exports.otlp_traces:
            tracers = _tracer_provider(options, resource, ids, exporters)
            closing.append(tracers.shutdown)
            handlers.append(AttemptSpans(tracers, ids))
        meters = _meter_provider(options, resource, exporters)
    meter = meters.get_meter("perago", options.version)
    handlers.append(Instruments(meter, options.executors))
    try:
        yield Telemetry(
            handlers=tuple(handlers),
            page=PrometheusPage() if options.exports.prometheus else None,
        )
    finally:
        _close([*closing, meters.shutdown], exporters)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    # The SDK raises whatever a certificate file or a number in a variable leads it to.
    except Exception as error:
        raise EnvironmentUnfitError(
            f"telemetry cannot be set up: {type(error).__name__}: {error}",
            hint="look at the OTEL_* variables, or set OTEL_SDK_DISABLED=true",
        ) from error


def _tracer_provider(
    options: TelemetryOptions,
    resource: Resource,
    ids: WorkflowTraceIds,
    exporters: list[_Exporter],
) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from perago.adapters.telemetry.redacted_spans import RedactedSpanExporter

    # At exit we close it ourselves: the SDK's own way waits for a dead collector.
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    exporter = OTLPSpanExporter()
    exporters.append(exporter)
    redacted = RedactedSpanExporter(exporter, options.redactor)
    provider.add_span_processor(BatchSpanProcessor(redacted))
    return provider


def _meter_provider(
    options: TelemetryOptions, resource: Resource, exporters: list[_Exporter]
) -> MeterProvider:
    from opentelemetry.sdk.metrics import MeterProvider

    readers: list[MetricReader] = []
    if options.exports.prometheus:
        from opentelemetry.exporter.prometheus import PrometheusMetricReader

        readers.append(PrometheusMetricReader())
    if options.exports.otlp_metrics:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        exporter = OTLPMetricExporter()
        exporters.append(exporter)
        readers.append(PeriodicExportingMetricReader(exporter))
    return MeterProvider(readers, resource=resource, shutdown_on_exit=False)


def _resource(options: TelemetryOptions) -> Resource:
    """Who sends; what OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say goes first."""
    from opentelemetry.sdk.resources import Resource

    given = options.environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    names = {pair.partition("=")[0].strip() for pair in given.split(",")}
    if options.environment.get("OTEL_SERVICE_NAME"):
        names.add("service.name")
    ours = {
        "service.name": "perago-worker",
        "service.version": options.version,
        "service.instance.id": options.worker_id,
    }
    return Resource.create({name: value for name, value in ours.items() if name not in names})


def _close(steps: list[Callable[[], None]], exporters: list[_Exporter]) -> None:
    """Take the steps side by side; what takes too long is told to stop trying, and left behind."""
    threads = [
        threading.Thread(target=step, name="perago-telemetry", daemon=True) for step in steps
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _CLOSE_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        for exporter in exporters:
            exporter.shutdown()
        for thread in threads:
            thread.join(_LEAVE_SECONDS)

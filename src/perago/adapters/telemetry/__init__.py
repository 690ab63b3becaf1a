"""OpenTelemetry traces and metrics of a worker; loads nothing of it until it is opened."""

from __future__ import annotations

from perago.adapters.telemetry.choice import Exports, choose_exports
from perago.adapters.telemetry.opening import PrometheusPage, Telemetry, open_telemetry
from perago.adapters.telemetry.options import ExecutorCount, TelemetryOptions
from perago.adapters.telemetry.trace_ids import trace_id_of

__all__ = [
    "ExecutorCount",
    "Exports",
    "PrometheusPage",
    "Telemetry",
    "TelemetryOptions",
    "choose_exports",
    "open_telemetry",
    "trace_id_of",
]

"""What telemetry is opened with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from perago.adapters.telemetry.choice import Exports
from perago.domain.redaction import NOTHING_KNOWN, Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorCount:
    """How many executors there should be, are alive, and have an attempt."""

    wanted: int
    alive: int
    busy: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryOptions:
    """Where telemetry goes, and who sends it.

    `environment` holds the standard OTEL_* variables; the SDK reads the process's own.
    """

    exports: Exports
    worker_id: str
    version: str
    executors: Callable[[], ExecutorCount | None]
    """What the gauge shows; asked from the threads that export."""
    environment: Mapping[str, str]
    redactor: Redactor = NOTHING_KNOWN
    """What hides secrets in spans."""

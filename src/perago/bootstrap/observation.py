"""What watches a worker: its log lines, summaries, telemetry, and its HTTP port."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal

from perago import __version__
from perago.adapters.telemetry import (
    ExecutorCount,
    PrometheusPage,
    TelemetryOptions,
    choose_exports,
    open_telemetry,
)
from perago.domain.events import EventHandler
from perago.domain.redaction import NOTHING_KNOWN, Redactor
from perago.ports import Clock
from perago.runtime.attempt_summary import AttemptSummaries
from perago.runtime.events import FanOut
from perago.runtime.health import HealthBoard
from perago.runtime.http_endpoint import serve_http
from perago.runtime.logs import LogStream, choose_format, set_up_worker_logging
from perago.settings import Settings, redactor_of

_STDERR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationOptions:
    """How a worker is watched, and what hides secrets from whoever watches."""

    log_level: str
    log_format: Literal["auto", "console", "json"] = "auto"
    redactor: Redactor = NOTHING_KNOWN
    http_host: str = "127.0.0.1"
    http_port: int | None = None
    worker_name: str = ""
    """Which worker it is to those who read its telemetry."""


def observation_options(
    settings: Settings, environment: Mapping[str, str] = os.environ
) -> ObservationOptions:
    """The part of the settings that says how a worker is watched."""
    return ObservationOptions(
        log_level=settings.log_level,
        log_format=settings.log_format,
        redactor=redactor_of(settings, environment),
        http_host=settings.http_host,
        http_port=settings.http_port,
        worker_name=socket.gethostname(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a supervisor and its executors are given so that they can be watched."""

    events: EventHandler
    """Takes the supervisor's events."""
    health: HealthBoard
    """Where the supervisor puts its state once each turn."""
    log_stream: LogStream
    """How executors log to the worker's standard error."""
    http_port: int | None
    """The port in force; another than asked for only where that was 0."""


@contextmanager
def open_observation(
    options: ObservationOptions,
    clock: Clock,
    *,
    environment: Mapping[str, str] = os.environ,
    also: Sequence[EventHandler] = (),
) -> Iterator[Observation]:
    """Set up logging, and open what is configured, until the end of the block."""
    log_format = choose_format(options.log_format, _STDERR)
    stream = LogStream(log_format=log_format, redactor=options.redactor)
    board = HealthBoard(clock)
    exports = choose_exports(environment, has_http_port=options.http_port is not None)
    set_up_worker_logging(options.log_level, stream)
    handlers: list[EventHandler] = [AttemptSummaries(), *also]
    page: PrometheusPage | None = None
    port: int | None = None
    with ExitStack() as stack:
        if exports.is_needed:
            telemetry = stack.enter_context(
                open_telemetry(
                    TelemetryOptions(
                        exports=exports,
                        worker_id=options.worker_name,
                        version=__version__,
                        executors=lambda: _count_executors(board),
                        environment=environment,
                        redactor=options.redactor,
                    )
                )
            )
            handlers.extend(telemetry.handlers)
            page = telemetry.page
        if options.http_port is not None:
            endpoint = stack.enter_context(
                serve_http(
                    options.http_host, options.http_port, board, page, redactor=options.redactor
                )
            )
            port = endpoint.server_port
        yield Observation(events=FanOut(handlers), health=board, log_stream=stream, http_port=port)


def _count_executors(board: HealthBoard) -> ExecutorCount | None:
    state = board.state
    if state is None:
        return None
    return ExecutorCount(
        wanted=state.executors, alive=state.executors_alive, busy=state.executors_busy
    )

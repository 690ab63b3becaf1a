"""Attempts as spans: one for each attempt, and below it one for each phase.

All attempts of a workflow are in one trace (`trace_ids`). An attempt's span has no parent: the
workflow belongs to the orchestrator, and no span of ours could begin and end with it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context

from perago.adapters.telemetry.trace_ids import trace_id_of
from perago.domain.events import (
    AttemptEnded,
    AttemptStarted,
    Event,
    ExecutorDied,
    HeartbeatFailed,
    LeaseLost,
    PhaseEnded,
    PhaseStarted,
    Polled,
    PollFailed,
)
from perago.domain.execution import Execution
from perago.domain.ids import TaskId
from perago.domain.outcome import Completed, Phase, read_ref

_MAX_REASON = 1000


class WorkflowTraceIds(IdGenerator):
    """Gives a root span the trace id that it is told to. For one thread."""

    def __init__(self) -> None:
        self._random = RandomIdGenerator()
        self.next_trace_id: int | None = None

    def generate_span_id(self) -> int:
        return self._random.generate_span_id()

    def generate_trace_id(self) -> int:
        return self.next_trace_id or self._random.generate_trace_id()


@dataclass(slots=True, kw_only=True)
class _Running:
    """The open spans of one attempt."""

    span: Span
    last: int
    """No span of it may begin before this: messages come late, but never in a wrong order."""
    phase: Phase | None = None
    phase_span: Span | None = None
    phase_began: int = 0


class AttemptSpans:
    """The `EventHandler` that turns attempts into spans with times of their own."""

    def __init__(self, provider: TracerProvider, ids: WorkflowTraceIds) -> None:
        self._tracer: Tracer = provider.get_tracer("perago")
        self._ids = ids
        self._running: dict[TaskId, _Running] = {}

    def handle(self, event: Event) -> None:
        """Begin, end or annotate the spans that the event is about."""
        if isinstance(event, AttemptStarted):
            self._begin(event.execution)
            return
        running = _find(self._running, event)
        if running is None:
            return
        match event:
            case PhaseStarted(phase=phase):
                self._begin_phase(running, phase)
            case PhaseEnded(phase=phase, seconds=seconds):
                _end_phase(running, phase, seconds)
            case HeartbeatFailed(reason=reason):
                _note(running, "heartbeat failed", reason)
            case LeaseLost(reason=reason):
                _note(running, "lease lost", reason)
            case ExecutorDied(how=how):
                _note(running, "executor died", how)
            case AttemptEnded():
                del self._running[event.attempt.task_id]
                _end(running, event)
            case _:
                pass

    def _begin(self, execution: Execution) -> None:
        attempt, now = execution.attempt, time.time_ns()
        self._ids.next_trace_id = trace_id_of(attempt.workflow_id)
        span = self._tracer.start_span(
            f"attempt {attempt.task_name}",
            kind=SpanKind.CONSUMER,
            attributes=_attributes(execution),
            start_time=now,
        )
        self._ids.next_trace_id = None
        self._running[attempt.task_id] = _Running(span=span, last=now)

    def _begin_phase(self, running: _Running, phase: Phase) -> None:
        if running.phase_span is not None:  # its end was never told
            running.last = max(running.last, time.time_ns())
            running.phase_span.end(running.last)
        # Phases follow each other at once, and may be told of together when all are over.
        running.phase, running.phase_began = phase, running.last
        running.phase_span = self._tracer.start_span(
            phase.value,
            context=set_span_in_context(running.span),
            attributes={"perago.phase": phase.value},
            start_time=running.phase_began,
        )


def _find(running: Mapping[TaskId, _Running], event: Event) -> _Running | None:
    if isinstance(event, Polled | PollFailed) or event.attempt is None:
        return None
    return running.get(event.attempt.task_id)


def _end_phase(running: _Running, phase: Phase, seconds: float) -> None:
    """End the phase's span after as long as the executor measured."""
    if running.phase_span is None or running.phase is not phase:
        return
    running.last = running.phase_began + int(seconds * 1e9)
    running.phase_span.end(running.last)
    running.phase_span = None


def _note(running: _Running, event: str, detail: str) -> None:
    running.span.add_event(event, {"perago.detail": detail[:_MAX_REASON]})


def _end(running: _Running, end: AttemptEnded) -> None:
    """End the attempt's span, and with it a phase that never ended."""
    now = max(running.last, time.time_ns())
    if running.phase_span is not None:
        running.phase_span.set_status(StatusCode.ERROR, "the phase never ended")
        running.phase_span.end(now)
    span, changes = running.span, end.tally.changes
    if changes is not None:
        span.set_attribute("perago.files.written", changes.written)
        span.set_attribute("perago.files.deleted", changes.deleted)
    match end.outcome:
        case Completed(output=output):
            if (ref := read_ref(output)) is not None:
                span.set_attribute("perago.output_ref", ref)
        case None:
            span.set_status(StatusCode.ERROR, "given up")
        case failure:
            span.set_attribute("perago.failed_phase", failure.phase.value)
            span.set_status(StatusCode.ERROR, failure.reason[:_MAX_REASON])
    span.set_attribute("perago.outcome", end.status)
    span.end(now)


def _attributes(execution: Execution) -> dict[str, str | int]:
    attempt = execution.attempt
    attributes: dict[str, str | int] = {
        "perago.workflow.id": attempt.workflow_id,
        "perago.task.id": attempt.task_id,
        "perago.task.name": attempt.task_name,
        "perago.task.reference": attempt.reference_name,
        "perago.task.retry": attempt.retry_count,
        "perago.task.iteration": attempt.iteration,
        "perago.execution.id": execution.execution_id,
    }
    if execution.input_ref is not None:
        attributes["perago.input_ref"] = execution.input_ref
    branch = execution.staging_branch
    if branch is not None:
        attributes["perago.staging_branch"] = branch
    return attributes

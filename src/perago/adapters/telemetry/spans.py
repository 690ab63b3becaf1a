"""Attempts as spans: one for each attempt, and below it one for each phase.

All attempts of a workflow are in one trace (`trace_ids`). An attempt's span has no parent: the
workflow belongs to the orchestrator, and no span of ours could begin and end with it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context

from perago.adapters.telemetry.trace_ids import trace_id_of
from perago.domain.attempt import Attempt
from perago.domain.changes import ChangeCount
from perago.domain.execution import Execution
from perago.domain.ids import TaskId
from perago.domain.outcome import Completed, Outcome, Phase, read_ref

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
    """The span of one attempt, and where it is."""

    span: Span
    last: int
    """No span of it may begin before this: messages come late, but never in a wrong order."""
    phase_span: Span | None = None
    phase_began: int = 0


class AttemptSpans:
    """Turns what a supervisor tells into spans with times of their own."""

    def __init__(self, provider: TracerProvider, ids: WorkflowTraceIds) -> None:
        self._tracer: Tracer = provider.get_tracer("perago")
        self._ids = ids
        self._running: dict[TaskId, _Running] = {}

    def begin(self, execution: Execution) -> None:
        """Begin the span of an attempt."""
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

    def begin_phase(self, attempt: Attempt, phase: Phase) -> None:
        """Begin the span of a phase."""
        running = self._running.get(attempt.task_id)
        if running is None:
            return
        if running.phase_span is not None:  # its end was never told
            running.last = max(running.last, time.time_ns())
            running.phase_span.end(running.last)
        # Phases follow each other at once, and may be told of together when all are over.
        running.phase_began = running.last
        running.phase_span = self._tracer.start_span(
            phase.value,
            context=set_span_in_context(running.span),
            attributes={"perago.phase": phase.value},
            start_time=running.phase_began,
        )

    def end_phase(self, attempt: Attempt, seconds: float) -> None:
        """End it after as long as the executor measured."""
        running = self._running.get(attempt.task_id)
        if running is None or running.phase_span is None:
            return
        running.last = running.phase_began + int(seconds * 1e9)
        running.phase_span.end(running.last)
        running.phase_span = None

    def count(self, attempt: Attempt, changes: ChangeCount) -> None:
        """Say how many files were changed."""
        running = self._running.get(attempt.task_id)
        if running is not None:
            running.span.set_attribute("perago.files.written", changes.written)
            running.span.set_attribute("perago.files.deleted", changes.deleted)

    def note(self, attempt: Attempt, event: str, detail: str) -> None:
        """Put an event on the attempt's span."""
        running = self._running.get(attempt.task_id)
        if running is not None:
            running.span.add_event(event, {"perago.detail": detail[:_MAX_REASON]})

    def end(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """End the attempt's span, and with it a phase that never ended."""
        running = self._running.pop(attempt.task_id, None)
        if running is None:
            return
        now = max(running.last, time.time_ns())
        if running.phase_span is not None:
            running.phase_span.set_status(StatusCode.ERROR, "the phase never ended")
            running.phase_span.end(now)
        span = running.span
        match outcome:
            case Completed(output=output):
                if (ref := read_ref(output)) is not None:
                    span.set_attribute("perago.output_ref", ref)
            case None:
                span.set_status(StatusCode.ERROR, "given up")
            case _:
                span.set_attribute("perago.failed_phase", outcome.phase.value)
                span.set_status(StatusCode.ERROR, outcome.reason[:_MAX_REASON])
        span.set_attribute("perago.outcome", status_of(outcome))
        span.end(now)


def status_of(outcome: Outcome | None) -> str:
    """The status of an attempt as metrics and spans name it."""
    return outcome.status.value if outcome is not None else "GIVEN_UP"


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

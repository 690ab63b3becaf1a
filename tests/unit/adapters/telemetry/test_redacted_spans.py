"""Spans leave the process without secrets, and otherwise as they were."""

from __future__ import annotations

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context

from perago.adapters.telemetry.redacted_spans import RedactedSpanExporter
from perago.domain.redaction import HIDDEN, Redactor

SECRET = "hunter2-hunter2"


def export(through: SpanExporter, said: str) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(through))
    tracer = provider.get_tracer("perago", "1.2.3")
    parent = tracer.start_span("attempt", kind=SpanKind.CONSUMER, start_time=1)
    span = tracer.start_span(
        f"body {said}",
        context=set_span_in_context(parent),
        attributes={"text": said, "number": 7, "texts": ["a", "b"]},
        start_time=2,
    )
    span.add_event(f"heartbeat {said}", {"detail": said}, timestamp=3)
    span.set_status(StatusCode.ERROR, f"ValueError: {said}")
    span.end(4)
    parent.end(5)
    provider.shutdown()


def spans_of(said: str, *, redacts: bool) -> tuple[ReadableSpan, ...]:
    kept = InMemorySpanExporter()
    export(RedactedSpanExporter(kept, Redactor((SECRET,))) if redacts else kept, said)
    return kept.get_finished_spans()


def test_no_text_of_a_span_holds_a_secret() -> None:
    body, parent = spans_of(SECRET, redacts=True)

    assert body.name == f"body {HIDDEN}"
    assert dict(body.attributes or {}) == {"text": HIDDEN, "number": 7, "texts": ("a", "b")}
    assert [event.name for event in body.events] == [f"heartbeat {HIDDEN}"]
    assert dict(body.events[0].attributes or {}) == {"detail": HIDDEN}
    assert body.status.description == f"ValueError: {HIDDEN}"
    assert body.parent is not None
    assert parent.context is not None
    assert body.parent.span_id == parent.context.span_id
    for span in (body, parent):
        assert SECRET not in span.to_json()


def test_everything_else_is_kept() -> None:
    for plain, redacted in zip(
        spans_of("no secret", redacts=False), spans_of("no secret", redacts=True), strict=True
    ):
        assert (redacted.name, redacted.kind) == (plain.name, plain.kind)
        assert (redacted.start_time, redacted.end_time) == (plain.start_time, plain.end_time)
        assert redacted.attributes == plain.attributes
        assert [event.timestamp for event in redacted.events] == [e.timestamp for e in plain.events]
        assert redacted.status.status_code is plain.status.status_code
        assert redacted.resource == plain.resource
        assert redacted.instrumentation_scope == plain.instrumentation_scope

"""Spans without secrets: the last step before they leave the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import Status
from opentelemetry.util.types import Attributes, AttributeValue

from perago.domain.redaction import Redactor


class RedactedSpanExporter(SpanExporter):
    """Passes spans on to another exporter, their texts without secrets."""

    def __init__(self, exporter: SpanExporter, redactor: Redactor) -> None:
        self._exporter = exporter
        self._redactor = redactor

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._exporter.export([self._redact(span) for span in spans])

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)

    def _redact(self, span: ReadableSpan) -> ReadableSpan:
        hide = self._redactor.apply
        said = span.status.description
        return ReadableSpan(
            name=hide(span.name),
            context=span.context,
            parent=span.parent,
            resource=span.resource,
            attributes=self._redact_attributes(span.attributes),
            events=[
                Event(
                    name=hide(event.name),
                    attributes=self._redact_attributes(event.attributes),
                    timestamp=event.timestamp,
                )
                for event in span.events
            ],
            links=span.links,
            kind=span.kind,
            status=Status(span.status.status_code, None if said is None else hide(said)),
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )

    def _redact_attributes(self, attributes: Attributes) -> Mapping[str, AttributeValue]:
        return {
            name: self._redactor.apply(value) if isinstance(value, str) else value
            for name, value in (attributes or {}).items()
        }

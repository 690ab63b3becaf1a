"""A log record as one line: for people, or as one JSON object for machines.

Invariants: no line holds a secret that the worker was given; a line that is too long is cut and
says so; whatever a body logs, formatting never fails and a record never looks like two.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Literal

from perago.domain.redaction import NOTHING_KNOWN, Redactor
from perago.domain.visible_text import visible, visible_json, visible_lines
from perago.runtime.log_context import current_fields

LogFormat = Literal["console", "json"]

MAX_LINE_BYTES = 4096
"""What a pipe takes in one piece: longer lines of several processes could get mixed up."""


# What every record has: the rest of its attributes were given as `extra`.
_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_RESERVED = frozenset({"time", "level", "logger", "exception", "truncated"})

LogObject = dict[str, object]


class JsonLines(logging.Formatter):
    """One JSON object per record, with the fields of the attempt it is about."""

    def __init__(self, redactor: Redactor = NOTHING_KNOWN) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """The object as text, within `MAX_LINE_BYTES`."""
        entry: LogObject = {
            "time": _moment(record).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
            **current_fields(),
        }
        if record.exc_info or record.exc_text or record.stack_info:
            entry["exception"] = _trace(self, record)
        for name, value in record.__dict__.items():
            if name not in _OWN and name not in _RESERVED and name not in entry:
                entry[name] = value
        return _cut_json(entry, self._redactor)


class ConsoleLines(logging.Formatter):
    """Time, level, logger and text, then the attempt's fields; a traceback follows, indented."""

    def __init__(self, redactor: Redactor = NOTHING_KNOWN) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """The record as text, within `MAX_LINE_BYTES`."""
        at = _moment(record).isoformat(sep=" ", timespec="milliseconds")[: -len("+00:00")]
        head = _flat(f"{at}Z {record.levelname:<7} {record.name}: ")
        fields = " ".join(f"{name}={value}" for name, value in current_fields().items())
        tail = _flat(f" [{fields}]") if fields else ""
        message = _indented(self._redactor.apply(_message(record)))
        trace = ""
        if record.exc_info or record.exc_text or record.stack_info:
            trace = "\n    " + _indented(self._redactor.apply(_trace(self, record)))
        room = MAX_LINE_BYTES - len((head + tail).encode()) - 1
        message = _shorten(message, max(room // 2, room - len(trace.encode())))
        line = head + message + tail + _keep_end(trace, room - len(message.encode()))
        return _shorten(line, MAX_LINE_BYTES - 1)


def line_formatter(log_format: LogFormat, redactor: Redactor) -> logging.Formatter:
    """The formatter of that format."""
    return JsonLines(redactor) if log_format == "json" else ConsoleLines(redactor)


# -- parts


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _message(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    # A body's arguments may not fit its text, or fail to print themselves.
    except Exception as error:  # noqa: BLE001
        text = f"{_text_of(record.msg)} (cannot be formatted: {type(error).__name__})"
    return text.encode("utf-8", "backslashreplace").decode()


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [record.exc_text] if record.exc_text else []
    if record.exc_info and not parts:
        try:
            parts.append(formatter.formatException(record.exc_info))
        except Exception:  # noqa: BLE001 - a body's exception may fail to print itself
            parts.append("".join(traceback.format_tb(record.exc_info[2])).rstrip())
    if record.stack_info:
        parts.append(record.stack_info)
    return "\n".join(parts).encode("utf-8", "backslashreplace").decode()


def _indented(text: str) -> str:
    """Control characters are shown as escapes, and a new line cannot pass for a new record."""
    return visible_lines(text).replace("\n", "\n    ")


def _flat(text: str) -> str:
    """The same for what has one line only: the names of loggers, steps and tasks."""
    return visible(text).encode("utf-8", "backslashreplace").decode()


# -- cutting


def _cut_json(entry: LogObject, redactor: Redactor) -> str:
    line = _dump(entry, redactor)
    if _size(line) <= MAX_LINE_BYTES:
        return line
    entry["truncated"] = True
    for name in [name for name in entry if name not in _KEPT]:
        if _size(_dump({name: entry[name]}, redactor)) > MAX_LINE_BYTES // 4:
            del entry[name]
    message, trace = str(entry["message"]), str(entry.get("exception", ""))
    room = MAX_LINE_BYTES
    while _size(line := _dump(entry, redactor)) > MAX_LINE_BYTES and room:
        room //= 2
        entry["message"] = _shorten(message, room)
        if trace:
            entry["exception"] = _keep_end(trace, room)
    if _size(line) <= MAX_LINE_BYTES:
        return line
    return _dump({name: entry[name] for name in ("time", "level", "truncated")}, redactor)


_KEPT = frozenset({"time", "level", "logger", "message", "exception", "truncated"})


def _dump(entry: LogObject, redactor: Redactor) -> str:
    try:
        text = _encode(entry)
    except _NO_JSON:
        text = _encode({name: _plain(value) for name, value in entry.items()})
    return visible_json(redactor.apply_in_json(text.encode("utf-8", "replace").decode()))


_NO_JSON = (TypeError, ValueError, RecursionError)
"""Raised for keys that are no text, for NaN, and for a circle."""


def _encode(value: object) -> str:
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, default=_text_of, separators=(",", ":")
    )


def _plain(value: object) -> object:
    """The value, as text if it cannot be JSON."""
    try:
        _encode(value)
    except _NO_JSON:
        return _text_of(value)
    return value


def _text_of(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a body's object may fail to print itself
        return f"({type(value).__name__} that cannot be printed)"


def _size(text: str) -> int:
    return len(text.encode()) + 1


def _shorten(text: str, room: int) -> str:
    raw = text.encode()
    if len(raw) <= room:
        return text
    return raw[: max(0, room - 10)].decode("utf-8", "ignore") + "… (cut)"


def _keep_end(text: str, room: int) -> str:
    """The end of a traceback says what went wrong."""
    raw = text.encode()
    if len(raw) <= room:
        return text
    return "(cut) …" + raw[len(raw) - max(0, room - 10) :].decode("utf-8", "ignore")

"""A log record as one line: for people, or as one JSON object for machines.

Invariants: no line holds a secret that the worker was given; a line that is too long is cut and
says so; whatever a body logs, formatting never fails and a record never looks like two.
"""

from __future__ import annotations

import json
import logging
import re
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

from perago.runtime.log_context import current_fields

LogFormat = Literal["console", "json"]

MAX_LINE_BYTES = 4096
"""What a pipe takes in one piece: longer lines of several processes could get mixed up."""

_HIDDEN = "(not shown)"
_SHORTEST_SECRET = 4
"""Hiding a text of one or two letters would only spoil every line."""

_SIGNED = re.compile(
    r"((?:X-Amz-(?:Signature|Credential|Security-Token)|Signature|sig|access_token)=)[^&\s\"'\\]+",
    re.IGNORECASE,
)
"""What makes a signed address a key to what it names."""
_SIGNED_MARKS = ("x-amz-", "signature=", "sig=", "access_token=")

_AUTHORIZATION = re.compile(
    r"((?:X-)?Authorization\\*[\"']?\s*[:=]\s*\\*[\"']?(?:(?:Bearer|Basic)\s+)?)[^\s\"',;\\]+",
    re.IGNORECASE,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")

# What every record has: the rest of its attributes were given as `extra`.
_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_RESERVED = frozenset({"time", "level", "logger", "exception", "truncated"})

LogObject = dict[str, object]


class Redaction:
    """Hides secrets in text: those it was given, and what looks like a signature or a token."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret for secret in secrets if len(secret) >= _SHORTEST_SECRET}
        # The longest first: a secret may be part of another.
        self._known = sorted(known, key=len, reverse=True)
        self._in_json = [json.dumps(secret, ensure_ascii=False)[1:-1] for secret in self._known]

    def apply(self, text: str, *, is_json: bool = False) -> str:
        """The text without secrets; JSON stays JSON."""
        for secret in self._in_json if is_json else self._known:
            text = text.replace(secret, _HIDDEN)
        # Nearly no line has any of them, and the patterns cost more than the rest of a line.
        lowered = text.lower()
        if any(mark in lowered for mark in _SIGNED_MARKS):
            text = _SIGNED.sub(rf"\1{_HIDDEN}", text)
        if "authorization" in lowered:
            text = _AUTHORIZATION.sub(rf"\1{_HIDDEN}", text)
        return text


class JsonLines(logging.Formatter):
    """One JSON object per record, with the fields of the attempt it is about."""

    def __init__(self, redaction: Redaction | None = None) -> None:
        super().__init__()
        self._redaction = redaction or Redaction()

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
        return _cut_json(entry, self._redaction)


class ConsoleLines(logging.Formatter):
    """Time, level, logger and text, then the attempt's fields; a traceback follows, indented."""

    def __init__(self, redaction: Redaction | None = None) -> None:
        super().__init__()
        self._redaction = redaction or Redaction()

    def format(self, record: logging.LogRecord) -> str:
        """The record as text, within `MAX_LINE_BYTES`."""
        at = _moment(record).isoformat(sep=" ", timespec="milliseconds")[: -len("+00:00")]
        head = f"{at}Z {record.levelname:<7} {record.name}: "
        tail = "".join(f" {name}={value}" for name, value in current_fields().items())
        tail = f" [{tail[1:]}]" if tail else ""
        message = _indented(self._redaction.apply(_message(record)))
        trace = ""
        if record.exc_info or record.exc_text or record.stack_info:
            trace = "\n    " + _indented(self._redaction.apply(_trace(self, record)))
        room = MAX_LINE_BYTES - len((head + tail).encode("utf-8", "backslashreplace")) - 1
        message = _shorten(message, max(room // 2, room - len(trace.encode())))
        return head + message + tail + _keep_end(trace, room - len(message.encode()))


def line_formatter(log_format: LogFormat, redaction: Redaction) -> logging.Formatter:
    """The formatter of that format."""
    return JsonLines(redaction) if log_format == "json" else ConsoleLines(redaction)


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
    shown = _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)
    return shown.replace("\n", "\n    ")


# -- cutting


def _cut_json(entry: LogObject, redaction: Redaction) -> str:
    line = _dump(entry, redaction)
    if _size(line) <= MAX_LINE_BYTES:
        return line
    entry["truncated"] = True
    for name in [name for name in entry if name not in _KEPT]:
        if _size(_dump({name: entry[name]}, redaction)) > MAX_LINE_BYTES // 4:
            del entry[name]
    message, trace = str(entry["message"]), str(entry.get("exception", ""))
    room = MAX_LINE_BYTES
    while _size(line := _dump(entry, redaction)) > MAX_LINE_BYTES and room:
        room //= 2
        entry["message"] = _shorten(message, room)
        if trace:
            entry["exception"] = _keep_end(trace, room)
    if _size(line) <= MAX_LINE_BYTES:
        return line
    return _dump({name: entry[name] for name in ("time", "level", "truncated")}, redaction)


_KEPT = frozenset({"time", "level", "logger", "message", "exception", "truncated"})


def _dump(entry: LogObject, redaction: Redaction) -> str:
    try:
        text = json.dumps(entry, ensure_ascii=False, default=_text_of, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):  # keys that are no text, a circle
        plain = {name: _text_of(value) for name, value in entry.items()}
        text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return redaction.apply(text.encode("utf-8", "replace").decode(), is_json=True)


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

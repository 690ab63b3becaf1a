"""When a WAIT task ends: Conductor's `duration` and `until`, as text, to a moment."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from perago.domain.outcome import JsonObject, JsonValue

_LONGEST_TEXT = 100
_DURATION = re.compile(
    r"\s*(?:(?P<days>\d{1,9})\s*(?:days?|d))?"
    r"\s*(?:(?P<hours>\d{1,9})\s*(?:hours?|hrs?|h))?"
    r"\s*(?:(?P<minutes>\d{1,9})\s*(?:minutes?|mins?|m))?"
    r"\s*(?:(?P<seconds>\d{1,9})\s*(?:seconds?|secs?|s))?\s*",
    re.IGNORECASE,
)
_UNTIL = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})(?: (?P<time>\d{2}:\d{2}))?"
    r"(?: (?:UTC|GMT|Z)?(?P<offset>[+-]\d{2}:\d{2})?)?"
)


def decide_wait_end(wait_input: JsonObject, now: datetime) -> datetime | None:
    """The moment at which a WAIT that begins now ends; None is only by report.

    Raises `ValueError`, in words for the author of the workflow.
    """
    duration = _text(wait_input.get("duration"))
    until = _text(wait_input.get("until"))
    if duration and until:
        raise ValueError("both 'duration' and 'until' are given; keep one")
    if duration:
        try:
            return now + parse_duration(duration)
        except OverflowError:
            raise ValueError(f"duration {duration!r} ends after the year 9999") from None
    if until:
        return parse_until(until)
    return None


def parse_duration(text: str) -> timedelta:
    """Read `2 days 3 hours`, `10m20s`, `5 seconds` and the like."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ValueError(
            f"duration {text!r} is not understood; write it like '2 hours 30 minutes' or '90s'"
        )
    return timedelta(**{unit: int(number or 0) for unit, number in found.groupdict().items()})


def parse_until(text: str) -> datetime:
    """Read `2030-01-31`, `2030-01-31 15:20` or `2030-01-31 15:20 GMT+04:00`.

    Without an offset it is UTC; Conductor takes its server's zone.
    """
    found = _UNTIL.fullmatch(text.strip())
    try:
        day, time, offset = found.groups() if found is not None else ("", "", "")
        moment = datetime.fromisoformat(f"{day}T{time or '00:00'}")
        return moment.replace(tzinfo=_zone(offset or "+00:00"))
    except ValueError:
        raise ValueError(
            f"until {text!r} is not understood; write it like '2030-01-31 15:20 GMT+04:00'"
        ) from None


def _zone(offset: str) -> timezone:
    hours, minutes = offset[1:].split(":")
    span = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-span if offset[0] == "-" else span)


def _text(value: JsonValue) -> str:
    match value:
        case None:
            return ""
        case str() | int() | float():
            text = str(value)
        case _:
            raise ValueError("'duration' and 'until' are texts")
    if len(text) > _LONGEST_TEXT:
        # Looking for a moment in it might take for ever.
        raise ValueError(f"'duration' and 'until' have at most {_LONGEST_TEXT} characters")
    return text

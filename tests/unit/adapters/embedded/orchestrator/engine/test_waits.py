from datetime import UTC, datetime, timedelta, timezone

import pytest

from perago.adapters.embedded.orchestrator.engine.waits import (
    decide_wait_end,
    parse_duration,
    parse_until,
)
from perago.domain.outcome import JsonObject

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("5 seconds", timedelta(seconds=5)),
        ("2 minutes", timedelta(minutes=2)),
        ("10m20s", timedelta(minutes=10, seconds=20)),
        ("1 day 2 hrs 3 mins 4 secs", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("1D", timedelta(days=1)),
        (" 3 h ", timedelta(hours=3)),
        ("0s", timedelta()),
    ],
)
def test_durations(text: str, span: timedelta) -> None:
    assert parse_duration(text) == span


@pytest.mark.parametrize("text", ["soon", "5", "5 fortnights", "2s 1m", "-5s", "1.5s", " "])
def test_what_is_no_duration_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="not understood") as refused:
        parse_duration(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2030-01-31", datetime(2030, 1, 31, tzinfo=UTC)),
        ("2030-01-31 15:20", datetime(2030, 1, 31, 15, 20, tzinfo=UTC)),
        ("2030-01-31 15:20 UTC", datetime(2030, 1, 31, 15, 20, tzinfo=UTC)),
        ("2030-01-31 15:20 GMT+04:00", datetime(2030, 1, 31, 11, 20, tzinfo=UTC)),
        (
            "2030-01-31 15:20 -03:30",
            datetime(2030, 1, 31, 15, 20, tzinfo=timezone(-timedelta(hours=3, minutes=30))),
        ),
    ],
)
def test_moments(text: str, moment: datetime) -> None:
    assert parse_until(text) == moment


@pytest.mark.parametrize(
    "text", ["tomorrow", "2030-13-01", "2030-01-31T15:20", "2030-01-31 15:20 Mars", "31.1.2030"]
)
def test_what_is_no_moment_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="not understood") as refused:
        parse_until(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("wait_input", "end"),
    [
        ({"duration": "5 seconds"}, NOW + timedelta(seconds=5)),
        ({"until": "2030-01-02"}, datetime(2030, 1, 2, tzinfo=UTC)),
        ({"duration": None, "until": ""}, None),
        ({}, None),
    ],
)
def test_the_end_of_a_wait(wait_input: JsonObject, end: datetime | None) -> None:
    assert decide_wait_end(wait_input, NOW) == end


@pytest.mark.parametrize(
    ("wait_input", "problem"),
    [
        ({"duration": "5s", "until": "2030-01-02"}, "both"),
        ({"duration": "999999999 days"}, "year 9999"),
        ({"duration": 5}, "not understood"),
        ({"duration": " " * 20_000 + "x"}, "at most 100 characters"),
        ({"until": "2" * 20_000}, "at most 100 characters"),
        ({"duration": {"days": 1}}, "are texts"),
        ({"duration": [[[]]]}, "are texts"),
    ],
)
def test_a_wait_without_a_sensible_end_is_refused(wait_input: JsonObject, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        decide_wait_end(wait_input, NOW)

"""More flights than there were: the same rows, whole years apart."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterable, Iterator
from functools import cache
from operator import itemgetter

import pytest

from examples.flights.scale import TIMED, copy_table, shift_rows
from examples.flights.source import TABLES, open_table

KEYS = {
    "flights": ("time_hour", "carrier", "flight"),
    "weather": ("origin", "time_hour"),
}


class Counted(io.BytesIO):
    """Keeps nothing but the number of lines, and the length of the longest piece."""

    lines = 0
    longest = 0

    def write(self, data: object) -> int:
        assert isinstance(data, bytes)
        self.lines += data.count(b"\n")
        self.longest = max(self.longest, len(data))
        return len(data)

    def writelines(self, lines: Iterable[object]) -> None:
        for line in lines:
            self.write(line)


@cache  # flights take a second
def scaled(name: str, times: int) -> bytes:
    target = io.BytesIO()
    copy_table(name, target, times)
    return target.getvalue()


def columns(content: bytes, *names: str) -> Iterator[tuple[bytes, ...]]:
    header, *rows = content.splitlines()
    pick = itemgetter(*[header.split(b",").index(name.encode()) for name in names])
    return (pick(row.split(b",")) for row in rows)


@pytest.mark.parametrize("name", TABLES)
def test_one_copy_is_the_data_itself(name: str) -> None:
    with open_table(name) as source:
        assert scaled(name, 1) == source.read()


@pytest.mark.parametrize(("name", "grown"), [(name, name in TIMED) for name in TABLES])
@pytest.mark.parametrize("times", [2, 10])
def test_what_has_a_time_grows_and_the_rest_stays(name: str, times: int, grown: bool) -> None:
    once = scaled(name, 1)
    target = Counted()
    copy_table(name, target, times)
    rows = once.count(b"\n") - 1
    assert target.lines == 1 + rows * (times if grown else 1)


@pytest.mark.parametrize("name", TIMED)
def test_no_key_is_there_twice(name: str) -> None:
    content = scaled(name, 2)
    assert len(set(columns(content, *KEYS[name]))) == content.count(b"\n") - 1


@pytest.mark.parametrize("name", TIMED)
def test_a_copy_differs_from_the_data_in_its_years_alone(name: str) -> None:
    header, *rows = scaled(name, 2).splitlines()
    names = header.decode().split(",")
    half = len(rows) // 2
    for before, after in zip(rows[:half:500], rows[half::500], strict=True):
        old, new = (
            dict(zip(names, row.decode().split(","), strict=True)) for row in (before, after)
        )
        assert {column for column in names if old[column] != new[column]} == {"year", "time_hour"}
        assert int(new["year"]) == int(old["year"]) + 1
        hour = dt.datetime.fromisoformat(old["time_hour"])
        expected = hour.replace(year=hour.year + 1)
        assert dt.datetime.fromisoformat(new["time_hour"]) == expected


def test_a_flight_of_new_years_eve_keeps_its_distance_to_the_year() -> None:
    """Its hour is in the year after, for that is in UTC."""
    row = b"2013,12,31,2013,2359,-3,436,445,-9,B6,2013,N665JB,JFK,PSE,200,1617,23,59,"
    (found,) = shift_rows([row + b"2014-01-01T04:00:00Z\n"], TIMED["flights"], 99)
    assert found == row.replace(b"2013,12", b"2112,12") + b"2113-01-01T04:00:00Z\n"


def test_it_is_written_in_small_pieces() -> None:
    target = Counted()
    copy_table("weather", target, 5)
    assert 0 < target.longest < 1024 * 1024

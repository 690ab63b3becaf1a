"""Guardrails on a local directory.

Invariant: evaluating changes nothing, follows nothing out of the directory, and never raises for
what it finds there: a file that cannot be read is a violation like any other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from perago.adapters.localfs.globs import matches
from perago.domain.guardrail import (
    Custom,
    ForbidGlob,
    Guardrail,
    RequireColumns,
    RequireDir,
    RequireFile,
    RequireGlob,
    RequireRows,
)

if TYPE_CHECKING:
    from perago.adapters.localfs.tables import Table

SHOWN = 3
"""How many names a violation lists."""


class LocalGuardrailEvaluator:
    """Checks guardrails against the files of one directory."""

    def violations(self, guardrails: Sequence[Guardrail], directory: Path) -> list[str]:
        files = _Files(directory)
        return [text for guardrail in guardrails for text in _evaluate(guardrail, files)]


class _Files:
    """The files of a directory, listed at most once however many patterns ask."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._names: list[str] | None = None

    def names(self) -> list[str]:
        """Every file as a `/`-separated path below the root, sorted; links are not followed."""
        if self._names is None:
            self._names = sorted(self._list())
        return self._names

    def find(self, path: str) -> Path | None:
        """The place of a path, or None when it is missing or a link leads out of the root."""
        place = self.root / path
        try:
            resolved = place.resolve(strict=True)
        except (OSError, RuntimeError):
            return None
        return place if resolved.is_relative_to(self.root.resolve()) else None

    def _list(self) -> Iterator[str]:
        for directory, _, names in os.walk(self.root):
            for name in names:
                place = Path(directory, name)
                relative = place.relative_to(self.root).as_posix()
                found = self.find(relative) if place.is_symlink() else place
                if found is not None and found.is_file():
                    yield relative


def _evaluate(guardrail: Guardrail, files: _Files) -> Iterator[str]:
    match guardrail:
        case RequireFile() | RequireDir():
            yield from _evaluate_presence(guardrail, files)
        case RequireGlob(pattern, low, high):
            found = matches(pattern, files.names())
            yield from _outside(f"{pattern}: {len(found)} files match", len(found), low, high)
        case ForbidGlob(pattern):
            found = matches(pattern, files.names())
            if found:
                yield f"{pattern}: must match nothing, and matches {_some(found)}"
        case RequireColumns() | RequireRows():
            yield from _evaluate_table(guardrail, files)
        case Custom():
            yield from _evaluate_custom(guardrail, files.root)
        case _:
            assert_never(guardrail)


def _evaluate_presence(guardrail: RequireFile | RequireDir, files: _Files) -> Iterator[str]:
    path = guardrail.path
    place = files.find(path)
    if isinstance(guardrail, RequireFile):
        if place is None or not place.is_file():
            yield f"{path}: there is no such file"
    elif place is None or not place.is_dir():
        yield f"{path}: there is no such directory"
    elif not any(name.startswith(f"{path}/") for name in files.names()):
        yield f"{path}: the directory has no file in it"


def _evaluate_table(guardrail: RequireColumns | RequireRows, files: _Files) -> Iterator[str]:
    # Arrow takes long to import, and most tasks do without.
    from perago.adapters.localfs.tables import Unreadable, count_rows, find_table

    path = guardrail.path
    if files.find(path) is None:
        yield f"{path}: there is no such table"
        return
    below = [name for name in files.names() if name == path or name.startswith(f"{path}/")]
    table = find_table(files.root, path, below)
    if isinstance(table, Unreadable):
        yield table.reason
    elif isinstance(guardrail, RequireRows):
        rows = count_rows(table)
        if isinstance(rows, Unreadable):
            yield rows.reason
        else:
            found = f"{path}: the table has {rows} rows"
            yield from _outside(found, rows, guardrail.min, guardrail.max)
    else:
        yield from _missing_columns(guardrail.columns, table)


def _missing_columns(wanted: Sequence[str], table: Table) -> Iterator[str]:
    """The first file that lacks a column: where one does, the column is full of holes."""
    for part in table.parts:
        columns = part.columns()
        if not isinstance(columns, list):
            yield columns.reason
            return
        if missing := [name for name in wanted if name not in columns]:
            yield (
                f"{part.name}: the table has no column {_some(missing)}; "
                f"it has {_some(columns, limit=20)}"
            )
            return


def _evaluate_custom(guardrail: Custom, root: Path) -> Iterator[str]:
    try:
        answer = guardrail.check(root)
    except Exception as error:  # noqa: BLE001 - raising is how an author's check says no
        text = str(error)
        yield f"{guardrail.name}: {type(error).__name__}" + (f": {text}" if text else "")
        return
    # By name, so that the bool of NumPy counts: `return (column > 0).all()` gives one.
    if type(answer).__name__ in ("bool", "bool_"):
        if not answer:
            yield f"{guardrail.name}: returned False"
    elif isinstance(answer, str):
        yield f"{guardrail.name}: {answer}"
    elif answer is not None:
        yield (
            f"{guardrail.name}: returned a {type(answer).__name__}; a check raises, or returns "
            "None, True, False or a text"
        )


def _outside(found: str, count: int, low: int, high: int | None) -> Iterator[str]:
    if count < low:
        yield f"{found}, fewer than {low}"
    elif high is not None and count > high:
        yield f"{found}, more than {high}"


def _some(names: Sequence[str], limit: int = SHOWN) -> str:
    shown = ", ".join(repr(name) for name in names[:limit]) or "none"
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"

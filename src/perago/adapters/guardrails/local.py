"""Guardrails on a local directory.

Invariant: evaluating changes nothing and follows nothing out of the directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from perago.adapters.guardrails.rules import find_violations
from perago.adapters.guardrails.views import (
    TableView,
    Unreadable,
    explain_inside_delta,
    is_delta_table,
)
from perago.domain.guardrail import Guardrail


class LocalGuardrailEvaluator:
    """Checks guardrails against the files of one directory."""

    def violations(self, guardrails: Sequence[Guardrail], directory: Path) -> list[str]:
        return find_violations(guardrails, _DirectoryView(directory))


class _DirectoryView:
    """The files of a directory, listed at most once however many patterns ask."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._names: list[str] | None = None

    @property
    def place(self) -> Path:
        return self._root

    def names(self) -> list[str]:
        """Links are not followed."""
        if self._names is None:
            self._names = sorted(self._list())
        return self._names

    def has_file(self, path: str) -> bool:
        place = self._find(path)
        return place is not None and place.is_file()

    def has_directory(self, path: str) -> bool:
        place = self._find(path)
        return place is not None and place.is_dir()

    def table(self, path: str) -> TableView | Unreadable:
        # Arrow takes long to import, and most tasks do without.
        from perago.adapters.guardrails.delta_table import find_delta_table
        from perago.adapters.guardrails.tables import find_table

        if self._find(path) is None:
            return Unreadable(f"{path}: there is no such table")
        inside = explain_inside_delta(path, self.names())
        if inside is not None:
            return inside
        if is_delta_table(path, self.names()):
            return find_delta_table(self._root, path)
        below = [name for name in self.names() if name == path or name.startswith(f"{path}/")]
        return find_table(self._root, path, below)

    def _find(self, path: str) -> Path | None:
        """The place of a path, or None when it is missing or a link leads out of the root."""
        place = self._root / path
        try:
            resolved = place.resolve(strict=True)
        except (OSError, RuntimeError):
            return None
        return place if resolved.is_relative_to(self._root.resolve()) else None

    def _list(self) -> Iterator[str]:
        for directory, _, names in os.walk(self._root):
            for name in names:
                place = Path(directory, name)
                relative = place.relative_to(self._root).as_posix()
                found = self._find(relative) if place.is_symlink() else place
                if found is not None and found.is_file():
                    yield relative

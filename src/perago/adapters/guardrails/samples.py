"""A few rows of a table, short enough for an error."""

from __future__ import annotations

from collections.abc import Mapping

SAMPLE_ROWS = 3
_COLUMNS = 6
_CHARACTERS = 40


def describe_row(row: Mapping[str, object]) -> str:
    """`id=3, name='x'`: the first columns, long values cut."""
    shown = [f"{name}={_cut(repr(value))}" for name, value in list(row.items())[:_COLUMNS]]
    return ", ".join(shown) + (", …" if len(row) > _COLUMNS else "")


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]}…"

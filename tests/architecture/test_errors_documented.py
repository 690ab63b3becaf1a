"""Every error is on the page for users, and the page names no other."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from perago.domain import errors
from perago.domain.errors import PeragoError

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"


def test_the_page_lists_exactly_the_errors_there_are() -> None:
    defined = {
        name
        for name, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, PeragoError)
    }
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert set(rows) | {"PeragoError"} == defined
    assert len(rows) == len(set(rows)), "each error once"

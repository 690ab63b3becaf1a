"""What the rules make of a workspace that is in no directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from perago import (
    SparkWorkspace,
    require_columns,
    require_dir,
    require_file,
    require_no_nulls,
    require_rows,
    require_schema,
    require_unique,
)
from perago.adapters.guardrails.rules import describe_missing, find_violations
from perago.adapters.guardrails.views import ANY_TYPE, Offenders, TableView, Unreadable
from perago.domain.errors import EnvironmentUnfitError, PeragoError, StoreUnavailableError
from perago.domain.guardrail import Custom, Guardrail


@dataclass(frozen=True)
class Table:
    rows: int | Unreadable = 3

    def find_missing(self, columns: Sequence[str]) -> str | None:
        return describe_missing("t", columns, ["a", "b"])

    def count_rows(self) -> int | Unreadable:
        return self.rows

    def schema(self) -> Mapping[str, str]:
        return {"a": "int", "b": ANY_TYPE}

    def duplicates(self, columns: Sequence[str]) -> Offenders | Unreadable:
        return Offenders(5, ("a=1",)) if list(columns) == ["a"] else Offenders(0, ())

    def nulls(self, columns: Sequence[str]) -> Offenders | Unreadable:
        return Unreadable("t: broken") if list(columns) == ["a"] else Offenders(0, ())


@dataclass(frozen=True)
class View:
    """A workspace of one table; its place is no path."""

    place: object = "somewhere"
    rows: int | Unreadable = 3

    def names(self) -> Sequence[str]:
        return ["t/part-0", "x"]

    def has_file(self, path: str) -> bool:
        return path in self.names()

    def has_directory(self, path: str) -> bool:
        return path == "t"

    def table(self, path: str) -> TableView | Unreadable:
        return Table(self.rows) if path == "t" else Unreadable(f"{path}: there is no such table")


def check_path(workspace: Path) -> None:
    raise AssertionError(workspace)


def check_any(workspace: object) -> str | None:
    return None if workspace == "somewhere" else "not there"


@pytest.mark.parametrize(
    "guardrail",
    [
        require_file("x"),
        require_dir("t"),
        require_rows("t", min=3, max=3),
        require_columns("t", ["a", "b"]),
        require_schema("t", "b DATE, a INT"),
        require_unique("t", ["b"]),
        require_no_nulls("t", ["b"]),
        Custom(check_any),
    ],
)
def test_what_holds(guardrail: Guardrail) -> None:
    assert find_violations([guardrail], View()) == []


@pytest.mark.parametrize(
    ("guardrail", "words"),
    [
        (require_file("t"), "t: there is no such file"),
        (require_dir("x"), "x: there is no such directory"),
        (require_rows("t", min=4), "t: the table has 3 rows, fewer than 4"),
        (require_rows("y"), "y: there is no such table"),
        (require_columns("t", ["c"]), "t: the table has no column 'c'; it has 'a', 'b'"),
        (require_schema("t", "a LONG, b DATE"), "t: column 'a' is int, not bigint"),
        (require_unique("t", ["a"]), "5 values of 'a' stand in more than one row, such as a=1"),
        (require_no_nulls("t", ["a"]), "t: broken"),
        (require_unique("t", ["c"]), "t: the table has no column 'c'"),
        (Custom(check_path), "check_path: takes a Path, and a direct workspace has none"),
    ],
)
def test_what_does_not(guardrail: Guardrail, words: str) -> None:
    (found,) = find_violations([guardrail], View())
    assert words in found


def test_a_table_that_cannot_be_counted_is_a_violation() -> None:
    view = View(rows=Unreadable("t: broken"))
    assert find_violations([require_rows("t")], view) == ["t: broken"]


def test_a_check_of_a_path_gets_one_where_there_is_one(tmp_path: Path) -> None:
    (found,) = find_violations([Custom(check_path)], View(place=tmp_path))
    assert found.startswith("check_path: AssertionError")


def test_a_check_of_spark_gets_no_path(tmp_path: Path) -> None:
    def check_spark(workspace: SparkWorkspace) -> None:
        raise AssertionError(workspace)

    (found,) = find_violations([Custom(check_spark)], View(place=tmp_path))
    assert "takes a SparkWorkspace, which guardrails of Spark tasks get" in found


@pytest.mark.parametrize("error", [StoreUnavailableError("away"), EnvironmentUnfitError("dead")])
def test_what_could_not_be_looked_at_is_no_violation(error: PeragoError) -> None:
    """For `pre`, a violation ends the workflow; a server that is away is no reason for that."""

    def look(workspace: object) -> None:
        raise error

    with pytest.raises(type(error)):
        find_violations([Custom(look)], View())

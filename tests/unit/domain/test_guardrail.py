"""What a guardrail may demand."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from perago.domain.errors import DeclarationError
from perago.domain.guardrail import (
    Custom,
    ForbidGlob,
    RequireColumns,
    RequireDir,
    RequireFile,
    RequireGlob,
    RequireNoNulls,
    RequireRows,
    RequireSchema,
    RequireUnique,
)

BY_PATH: dict[str, Callable[[str], object]] = {
    "require_file": RequireFile,
    "require_dir": RequireDir,
    "require_glob": RequireGlob,
    "forbid_glob": ForbidGlob,
    "require_columns": lambda path: RequireColumns(path, ("origin",)),
    "require_rows": RequireRows,
    "require_schema": lambda path: RequireSchema(path, (("origin", "string"),)),
    "require_unique": lambda path: RequireUnique(path, ("origin",)),
    "require_no_nulls": lambda path: RequireNoNulls(path, ("origin",)),
}


@pytest.mark.parametrize("name", BY_PATH)
@pytest.mark.parametrize("path", ["raw/flights.csv", "raw/**/*.parquet", "a b/[0-9]?.csv"])
def test_a_path_inside_the_workspace_is_taken(name: str, path: str) -> None:
    assert BY_PATH[name](path) == BY_PATH[name](path)


@pytest.mark.parametrize("name", BY_PATH)
@pytest.mark.parametrize("path", ["", "/raw", "raw/", "../raw", "raw/./x", "a//b", "a\nb"])
def test_a_path_outside_the_workspace_is_refused(name: str, path: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        BY_PATH[name](path)
    assert caught.value.message.startswith(f"{name}({path!r}) is refused: ")
    assert caught.value.hint


@pytest.mark.parametrize("kind", [RequireGlob, RequireRows])
@pytest.mark.parametrize(
    ("low", "high", "possible"),
    [
        (0, None, True),
        (1, 1, True),
        (0, 0, True),
        (3, 5, True),
        (-1, None, False),
        (2, 1, False),
        (1, 0, False),
    ],
)
def test_bounds(
    kind: type[RequireGlob | RequireRows], low: int, high: int | None, possible: bool
) -> None:
    if possible:
        assert (kind("a", low, high).min, kind("a", low, high).max) == (low, high)
    else:
        with pytest.raises(DeclarationError, match=f"min={low}, max={high}"):
            kind("a", low, high)


def test_columns_must_be_named() -> None:
    with pytest.raises(DeclarationError, match="at least one column"):
        RequireColumns("a", ())


class IsFresh:
    def __call__(self, workspace: Path) -> bool:
        return True


def is_fresh(workspace: Path) -> bool:
    return True


@pytest.mark.parametrize(
    ("check", "name"),
    [
        pytest.param(is_fresh, "is_fresh", id="function"),
        pytest.param(IsFresh(), "IsFresh", id="object"),
        pytest.param(functools.partial(is_fresh), "partial", id="partial"),
    ],
)
def test_the_name_of_a_check_of_ones_own(check: Callable[[Path], object], name: str) -> None:
    assert Custom(check).name == name


@pytest.mark.parametrize("kind", [RequireSchema, RequireUnique, RequireNoNulls])
def test_a_guardrail_on_no_column_is_refused(kind: type) -> None:
    with pytest.raises(DeclarationError, match="needs at least one column"):
        kind("t", ())

"""What an author writes to say which files a task needs, and which it promises.

Each function makes a value of `perago.domain.guardrail`; nothing is looked at here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from perago.domain.errors import DeclarationError
from perago.domain.guardrail import (
    Custom,
    ForbidGlob,
    Guardrail,
    RequireColumns,
    RequireDir,
    RequireFile,
    RequireGlob,
    RequireNoNulls,
    RequireRows,
    RequireSchema,
    RequireUnique,
)
from perago.domain.table_schema import parse_schema
from perago.ports.spark import SparkWorkspace

Check = Guardrail | Callable[[Path], object] | Callable[[SparkWorkspace], object]
"""What `WorkspaceSpec` takes: a guardrail, or a callable of one's own."""


def require_file(path: str) -> RequireFile:
    """The file exists."""
    return RequireFile(path)


def require_dir(path: str) -> RequireDir:
    """The directory exists and has a file in it."""
    return RequireDir(path)


def require_glob(pattern: str, *, min: int = 1, max: int | None = None) -> RequireGlob:  # noqa: A002 - reads as what it means
    """Between `min` and `max` files match; `**` spans directories."""
    return RequireGlob(pattern, min, max)


def forbid_glob(pattern: str) -> ForbidGlob:
    """No file matches."""
    return ForbidGlob(pattern)


def require_columns(path: str, columns: Sequence[str]) -> RequireColumns:
    """The Parquet or CSV table, a file or a directory of files, has these columns."""
    return RequireColumns(path, _listed("require_columns", path, columns))


def require_rows(path: str, *, min: int = 1, max: int | None = None) -> RequireRows:  # noqa: A002 - reads as what it means
    """The Parquet or CSV table has between `min` and `max` rows."""
    return RequireRows(path, min, max)


def require_schema(path: str, schema: str | Mapping[str, str]) -> RequireSchema:
    """The Parquet table has exactly these columns, of these types, in any order.

    Types are Spark's: `"id BIGINT, name STRING"`, or a mapping. Of the columns by which a table is
    partitioned only the names count.
    """
    return RequireSchema(path, tuple(parse_schema(schema).items()))


def require_unique(path: str, columns: Sequence[str]) -> RequireUnique:
    """No two rows of the Parquet or CSV table have the same values in these columns."""
    return RequireUnique(path, _listed("require_unique", path, columns))


def require_no_nulls(path: str, columns: Sequence[str]) -> RequireNoNulls:
    """Every row of the Parquet or CSV table has a value in each of these columns."""
    return RequireNoNulls(path, _listed("require_no_nulls", path, columns))


def _listed(maker: str, path: str, columns: Sequence[str]) -> tuple[str, ...]:
    if isinstance(columns, str):
        raise DeclarationError(
            f"{maker}({path!r}, {columns!r}) takes a list of columns",
            hint=f"write {maker}({path!r}, [{columns!r}])",
        )
    return tuple(columns)


def as_guardrails(checks: Iterable[Check], *, side: str) -> tuple[Guardrail, ...]:
    """Take guardrails as they are and wrap callables; `side` is for the message."""
    return tuple(_as_guardrail(check, side) for check in checks)


def _as_guardrail(check: Check, side: str) -> Guardrail:
    if isinstance(check, Guardrail):
        return check
    if callable(check):
        return Custom(check)
    raise DeclarationError(
        f"WorkspaceSpec({side}=...) holds {check!r}, which is not a guardrail",
        hint='use require_file("a.csv") and its like, or a function that takes the directory',
    )


def takes_spark_workspace(guardrail: Guardrail) -> bool:
    """Whether it is a check of the author's own that asks for Spark."""
    return isinstance(guardrail, Custom) and annotation_of(guardrail).endswith("SparkWorkspace")


def annotation_of(guardrail: Custom) -> str:
    """What its first parameter is annotated with; a check without annotations takes anything."""
    try:
        parameters = inspect.signature(guardrail.check).parameters.values()
    except (TypeError, ValueError):
        return ""
    first = next(iter(parameters), None)
    found = first.annotation if first is not None else ""
    return found if isinstance(found, str) else str(getattr(found, "__name__", ""))

"""What each guardrail demands, as rules over a view of the workspace.

Invariant: evaluating never raises for what it finds: a table that cannot be read is a violation
like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import assert_never

from perago.adapters.guardrails.globs import matches
from perago.adapters.guardrails.views import (
    ANY_TYPE,
    Offenders,
    TableView,
    Unreadable,
    WorkspaceView,
)
from perago.authoring.guardrails import annotation_of, takes_spark_workspace
from perago.domain.errors import EnvironmentUnfitError, StoreError
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
    TableGuardrail,
)

SHOWN = 3
"""How many names a violation lists."""


def find_violations(guardrails: Sequence[Guardrail], view: WorkspaceView) -> list[str]:
    """What is wrong, one sentence each."""
    return [text for guardrail in guardrails for text in _evaluate(guardrail, view)]


def name_some(names: Sequence[str], limit: int = SHOWN) -> str:
    """The first few of many names."""
    shown = ", ".join(repr(name) for name in names[:limit]) or "none"
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def describe_missing(part: str, wanted: Sequence[str], columns: Sequence[str]) -> str | None:
    """Which of the wanted columns a part of a table lacks."""
    missing = [name for name in wanted if name not in columns]
    if not missing:
        return None
    has = name_some(columns, limit=20)
    return f"{part}: the table has no column {name_some(missing)}; it has {has}"


def _evaluate(guardrail: Guardrail, view: WorkspaceView) -> Iterator[str]:
    match guardrail:
        case RequireFile(path):
            if not view.has_file(path):
                yield f"{path}: there is no such file"
        case RequireDir(path):
            yield from _evaluate_directory(path, view)
        case RequireGlob(pattern, low, high):
            found = matches(pattern, view.names())
            yield from _outside(f"{pattern}: {len(found)} files match", len(found), low, high)
        case ForbidGlob(pattern):
            found = matches(pattern, view.names())
            if found:
                yield f"{pattern}: must match nothing, and matches {name_some(found)}"
        case (
            RequireColumns() | RequireRows() | RequireSchema() | RequireUnique() | RequireNoNulls()
        ):
            yield from _evaluate_table(guardrail, view)
        case Custom():
            yield from _evaluate_custom(guardrail, view.place)
        case _:
            assert_never(guardrail)


def _evaluate_directory(path: str, view: WorkspaceView) -> Iterator[str]:
    if not view.has_directory(path):
        yield f"{path}: there is no such directory"
    elif not any(name.startswith(f"{path}/") for name in view.names()):
        yield f"{path}: the directory has no file in it"


def _evaluate_table(guardrail: TableGuardrail, view: WorkspaceView) -> Iterator[str]:
    table = view.table(guardrail.path)
    if isinstance(table, Unreadable):
        yield table.reason
        return
    match guardrail:
        case RequireColumns(columns=columns):
            missing = table.find_missing(columns)
            if missing is not None:
                yield missing
        case RequireRows(path, low, high):
            rows = table.count_rows()
            if isinstance(rows, Unreadable):
                yield rows.reason
            else:
                yield from _outside(f"{path}: the table has {rows} rows", rows, low, high)
        case RequireSchema(path, columns):
            schema = table.schema()
            if isinstance(schema, Unreadable):
                yield schema.reason
            else:
                yield from _compare_schemas(path, dict(columns), schema)
        case RequireUnique(path, columns):
            what = f"values of {name_some(columns)} stand in more than one row"
            yield from _offending(path, what, columns, table, table.duplicates)
        case RequireNoNulls(path, columns):
            what = f"rows have no value in {name_some(columns)}"
            yield from _offending(path, what, columns, table, table.nulls)
        case _:
            assert_never(guardrail)


def _offending(
    path: str,
    what: str,
    columns: Sequence[str],
    table: TableView,
    look: Callable[[Sequence[str]], Offenders | Unreadable],
) -> Iterator[str]:
    missing = table.find_missing(columns)
    if missing is not None:
        yield missing
        return
    found = look(columns)
    if isinstance(found, Unreadable):
        yield found.reason
    elif found.count:
        yield f"{path}: {found.count} {what}, such as {'; '.join(found.sample)}"


def _compare_schemas(
    path: str, wanted: Mapping[str, str], found: Mapping[str, str]
) -> Iterator[str]:
    missing = [f"{name} {kind}" for name, kind in wanted.items() if name not in found]
    if missing:
        yield f"{path}: the table lacks {name_some(missing)}"
    extra = [f"{name} {kind}" for name, kind in found.items() if name not in wanted]
    if extra:
        yield f"{path}: the table has {name_some(extra)} too much"
    for name, kind in wanted.items():
        if found.get(name, kind) not in (kind, ANY_TYPE):
            yield f"{path}: column {name!r} is {found[name]}, not {kind}"


def _evaluate_custom(guardrail: Custom, place: object) -> Iterator[str]:
    wanted, has_path = annotation_of(guardrail), isinstance(place, Path)
    if not has_path and wanted in ("Path", "pathlib.Path"):
        yield (
            f"{guardrail.name}: takes a Path, and a direct workspace has none; "
            "have it take a SparkWorkspace"
        )
        return
    if has_path and takes_spark_workspace(guardrail):
        yield (
            f"{guardrail.name}: takes a SparkWorkspace, which guardrails of Spark tasks get; here "
            "it would get a Path"
        )
        return
    try:
        answer = guardrail.check(place)
    except (StoreError, EnvironmentUnfitError):
        # No judgement: another attempt may reach what this one could not.
        raise
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

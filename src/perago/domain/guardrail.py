"""What a task demands of the files in its workspace, as values.

Evaluating them needs a file system, and for some Spark or Arrow: that happens behind the
`GuardrailEvaluator` port.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perago.domain.errors import DeclarationError
from perago.domain.workspace import explain_unsafe_path


@dataclass(frozen=True, slots=True)
class RequireFile:
    """The file exists."""

    path: str

    def __post_init__(self) -> None:
        _check_path("require_file", self.path)


@dataclass(frozen=True, slots=True)
class RequireDir:
    """The directory exists (a directory is there when something is in it)."""

    path: str

    def __post_init__(self) -> None:
        _check_path("require_dir", self.path)


@dataclass(frozen=True, slots=True)
class RequireGlob:
    """Between `min` and `max` files match; `**` spans directories."""

    pattern: str
    min: int = 1
    max: int | None = None

    def __post_init__(self) -> None:
        _check_path("require_glob", self.pattern)
        _check_bounds("require_glob", self.min, self.max)


@dataclass(frozen=True, slots=True)
class ForbidGlob:
    """No file matches."""

    pattern: str

    def __post_init__(self) -> None:
        _check_path("forbid_glob", self.pattern)


@dataclass(frozen=True, slots=True)
class RequireColumns:
    """The Parquet or CSV table (a file or a directory of files) has these columns."""

    path: str
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_path("require_columns", self.path)
        if not self.columns:
            raise DeclarationError("require_columns needs at least one column")


@dataclass(frozen=True, slots=True)
class RequireRows:
    """The Parquet or CSV table has between `min` and `max` rows."""

    path: str
    min: int = 1
    max: int | None = None

    def __post_init__(self) -> None:
        _check_path("require_rows", self.path)
        _check_bounds("require_rows", self.min, self.max)


@dataclass(frozen=True, slots=True)
class RequireSchema:
    """The table has exactly these columns, of these types; in any order."""

    path: str
    columns: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        _check_path("require_schema", self.path)
        if not self.columns:
            raise DeclarationError("require_schema needs at least one column")


@dataclass(frozen=True, slots=True)
class RequireUnique:
    """No two rows of the table have the same values in these columns."""

    path: str
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_path("require_unique", self.path)
        if not self.columns:
            raise DeclarationError("require_unique needs at least one column")


@dataclass(frozen=True, slots=True)
class RequireNoNulls:
    """No row of the table lacks a value in one of these columns."""

    path: str
    columns: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_path("require_no_nulls", self.path)
        if not self.columns:
            raise DeclarationError("require_no_nulls needs at least one column")


TableGuardrail = RequireColumns | RequireRows | RequireSchema | RequireUnique | RequireNoNulls
"""Those that look into a table."""


@dataclass(frozen=True, slots=True)
class Custom:
    """A check of one's own.

    It gets the workspace directory, or the `SparkWorkspace` where there is none, and says no by
    raising, by returning a text (what is wrong), or by returning False. None and True mean yes.
    """

    check: Callable[[Any], object]

    @property
    def name(self) -> str:
        """What to call the check in an error."""
        named = getattr(self.check, "__name__", None)
        return named if isinstance(named, str) else type(self.check).__name__


Guardrail = RequireFile | RequireDir | RequireGlob | ForbidGlob | TableGuardrail | Custom


def _check_path(maker: str, path: str) -> None:
    reason = explain_unsafe_path(path)
    if reason is not None:
        raise DeclarationError(
            f"{maker}({path!r}) is refused: {reason}",
            hint=(
                "a guardrail's path is relative to the task's prefix, with no '/' at either end: "
                "'raw/flights.csv'"
            ),
        )


def _check_bounds(maker: str, low: int, high: int | None) -> None:
    if low < 0 or (high is not None and high < low):
        raise DeclarationError(f"{maker} has impossible bounds: min={low}, max={high}")

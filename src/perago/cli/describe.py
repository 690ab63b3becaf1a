"""Declarations in a few words, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

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

if TYPE_CHECKING:
    from perago.authoring import RetryPolicy, TimeoutPolicy


def describe_guardrail(guardrail: Guardrail) -> str:
    """A guardrail as its author wrote it, more or less."""
    match guardrail:
        case RequireFile(path=path):
            return f"require_file({path})"
        case RequireDir(path=path):
            return f"require_dir({path})"
        case RequireGlob(pattern=pattern, min=low, max=high):
            return f"require_glob({pattern}, {_bounds(low, high)})"
        case ForbidGlob(pattern=pattern):
            return f"forbid_glob({pattern})"
        case Custom():
            return guardrail.name
        case _:
            return _describe_table_guardrail(guardrail)


def _describe_table_guardrail(guardrail: TableGuardrail) -> str:
    match guardrail:
        case RequireColumns(path=path, columns=columns):
            return f"require_columns({path}: {', '.join(columns)})"
        case RequireRows(path=path, min=low, max=high):
            return f"require_rows({path}, {_bounds(low, high)})"
        case RequireSchema(path=path, columns=typed):
            return f"require_schema({path}: {', '.join(' '.join(one) for one in typed)})"
        case RequireUnique(path=path, columns=columns):
            return f"require_unique({path}: {', '.join(columns)})"
        case RequireNoNulls(path=path, columns=columns):
            return f"require_no_nulls({path}: {', '.join(columns)})"
        case _:
            assert_never(guardrail)


def describe_retry(retry: RetryPolicy) -> str:
    """`3 times, 5 s apart`, or `none`."""
    if retry.count == 0:
        return "none"
    pace = {
        "FIXED": "apart",
        "LINEAR_BACKOFF": "more each time",
        "EXPONENTIAL_BACKOFF": "doubling",
    }[retry.logic]
    return f"{retry.count}x, {retry.delay_seconds} s {pace}"


def describe_timeouts(timeout: TimeoutPolicy) -> str:
    """The lease, and the bound on the whole attempt where there is one."""
    total = "" if timeout.total_seconds is None else f", total {timeout.total_seconds} s"
    return f"lease {timeout.response_seconds} s{total}"


def _bounds(low: int, high: int | None) -> str:
    return f"{low} or more" if high is None else f"{low} to {high}"

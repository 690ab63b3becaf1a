"""Perago: a typed Python worker runtime that makes data tasks safe.

What a task author needs is here. `perago.authoring` has the rest of it, such as raw tasks between
the steps of a pipeline; `perago.testing` is for tests.

The names are imported when they are first used: Pydantic, which they need, takes longer than
`perago --version` may.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perago.authoring import (
        Limits,
        Pipeline,
        RetryPolicy,
        Task,
        TaskContext,
        TaskControls,
        TimeoutPolicy,
        WorkspaceSpec,
        forbid_glob,
        parallel,
        pipeline_param,
        require_columns,
        require_dir,
        require_file,
        require_glob,
        require_no_nulls,
        require_rows,
        require_schema,
        require_unique,
        result_of,
        step,
        task,
    )
    from perago.domain.budget import PublishBudget
    from perago.domain.errors import PeragoError, TaskFailed, TaskTerminalError
    from perago.ports.spark import SparkWorkspace

__all__ = [
    "Limits",
    "PeragoError",
    "Pipeline",
    "PublishBudget",
    "RetryPolicy",
    "SparkWorkspace",
    "Task",
    "TaskContext",
    "TaskControls",
    "TaskFailed",
    "TaskTerminalError",
    "TimeoutPolicy",
    "WorkspaceSpec",
    "forbid_glob",
    "parallel",
    "pipeline_param",
    "require_columns",
    "require_dir",
    "require_file",
    "require_glob",
    "require_no_nulls",
    "require_rows",
    "require_schema",
    "require_unique",
    "result_of",
    "step",
    "task",
]

__version__ = "0.1.0"

_MODULES = {
    "PeragoError": "perago.domain.errors",
    "PublishBudget": "perago.domain.budget",
    "SparkWorkspace": "perago.ports.spark",
    "TaskFailed": "perago.domain.errors",
    "TaskTerminalError": "perago.domain.errors",
}
"""Where the names are that are not in `perago.authoring`."""

_PACKAGES = ("authoring", "domain", "ports")
"""What `import perago` alone gives, too."""


if not TYPE_CHECKING:  # with it, type checkers would take every name for one of ours

    def __getattr__(name: str) -> object:
        if name in _PACKAGES:
            return import_module(f"{__name__}.{name}")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_MODULES.get(name, "perago.authoring")), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

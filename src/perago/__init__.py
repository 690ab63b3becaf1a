"""Perago: a typed Python worker runtime that makes data tasks safe.

What a task author needs is here. `perago.authoring` has the rest of it, such as raw tasks between
the steps of a pipeline; `perago.testing` is for tests.
"""

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

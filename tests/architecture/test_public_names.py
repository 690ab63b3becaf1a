"""The public API: its names, and what importing it costs."""

import subprocess
import sys

import pytest

import perago

PUBLIC = [
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


def test_the_public_names_are_these() -> None:
    assert perago.__all__ == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    assert getattr(perago, name).__doc__


def test_importing_perago_loads_nothing_heavy() -> None:
    heavy = ["pyarrow", "pyspark", "pandas", "numpy", "rich", "typer", "sqlite3"]
    report = f"import sys, perago; print([name for name in {heavy} if name in sys.modules])"
    answer = subprocess.run(
        [sys.executable, "-c", report], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"

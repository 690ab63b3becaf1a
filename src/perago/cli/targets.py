"""TARGETs of a command line: loaded once here, and again in every executor."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from perago.authoring import AnyTask, Declarations, load_pipeline, load_targets
from perago.cli.session import Job
from perago.settings import Settings


def load_job(target: str, search_path: Path) -> Job:
    """The pipeline that a TARGET names, a single task being one."""
    # What a module prints while it is imported is no part of the answer.
    with redirect_stdout(sys.stderr):
        pipeline = load_pipeline(target, search_path)
    return Job(pipeline=pipeline, target=target, search_path=search_path)


def load_declarations(targets: Sequence[str], search_path: Path) -> Declarations:
    """Everything that TARGETs declare."""
    with redirect_stdout(sys.stderr):
        return load_targets(targets, search_path)


def require_spark_for(tasks: Sequence[AnyTask], settings: Settings) -> None:
    """Raise now, not in the middle of a run, where a task needs Spark and there is none."""
    from perago.bootstrap import describe_spark

    if any(task.needs_spark for task in tasks):
        describe_spark(settings)

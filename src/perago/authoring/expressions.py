"""Values that exist only while a workflow runs, as the author writes them.

They are rendered to the orchestrator's `${…}` texts when a pipeline is wired, where it is known
which steps are over by then and which fields they have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from perago.domain.errors import PipelineError

PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*")


@dataclass(frozen=True, slots=True)
class ResultOf:
    """A value from the result of an earlier step; an empty path is the whole result."""

    reference: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class PipelineParam:
    """A value from the pipeline's params."""

    path: str


@dataclass(frozen=True, slots=True)
class CurrentWorkspace:
    """The workspace as the last writing step left it."""


Expression = ResultOf | PipelineParam | CurrentWorkspace


def result_of(ref: str, path: str = "") -> ResultOf:
    """A value from an earlier step's result: `result_of("clean", "rows")`.

    Of a raw task it is a value from its output.
    """
    if path:
        _check_path("result_of", path)
    return ResultOf(ref, path)


def pipeline_param(path: str) -> PipelineParam:
    """A value from the pipeline's params: `pipeline_param("year")`."""
    _check_path("pipeline_param", path)
    return PipelineParam(path)


def current_workspace() -> CurrentWorkspace:
    """The workspace as the last writing step left it, for the input of a raw task."""
    return CurrentWorkspace()


def _check_path(maker: str, path: str) -> None:
    if not PATH.fullmatch(path):
        raise PipelineError(
            f"{maker}: {path!r} is no path to a field",
            hint='write field names with dots between them, such as "totals.rows"',
        )

"""The elements of a pipeline, before they are wired.

Invariant: no two steps that may write the workspace run side by side. `parallel(...)` refuses a
writer the moment it is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import TypeAlias

from perago.authoring.raw_tasks import RawTask
from perago.authoring.tasks import AnyTask, Task
from perago.domain.errors import PipelineError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """A task at one place of a pipeline; `params` holds literals and expressions."""

    task: AnyTask
    reference: str
    params: Mapping[str, object] = field(default_factory=dict)

    @property
    def writes_workspace(self) -> bool:
        """Whether the workspace goes on from what this step publishes."""
        return self.task.writes_workspace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parallel:
    """Branches that run side by side; each is a series of steps."""

    branches: tuple[tuple[Element, ...], ...]


Element: TypeAlias = Step | RawTask | Parallel
StepLike: TypeAlias = AnyTask | Element


def step(task: AnyTask, ref: str | None = None, params: Mapping[str, object] | None = None) -> Step:
    """A task with a reference name or params of its own.

    Values of `params` are literals, or `result_of(...)` and `pipeline_param(...)`, at any depth.
    """
    if not isinstance(task, Task):
        raise _no_step(task)
    # A dot would end the name inside `${ref.output…}`.
    reference = task.name.replace(".", "_") if ref is None else ref
    return Step(task=task, reference=reference, params=dict(params or {}))


def parallel(*branches: StepLike | Sequence[StepLike]) -> Parallel:
    """Steps that run side by side; a list is a branch of several steps in a row.

    None of them may write the workspace.
    """
    if len(branches) < 2:
        raise PipelineError("parallel(...) needs at least two branches")
    made = tuple(
        as_elements(branch) if isinstance(branch, Sequence) else (as_element(branch),)
        for branch in branches
    )
    if not all(made):
        raise PipelineError("parallel(...) has a branch without steps")
    for element in (found for branch in made for found in walk(branch)):
        if element.writes_workspace:
            raise PipelineError(
                f"step {element.reference!r} writes the workspace and stands inside parallel(...): "
                "two writers from one commit cannot both publish, the later one is always refused",
                hint="move it before or after parallel(...), or make it read-only: "
                "WorkspaceSpec(..., read_only=True), writes_workspace=False for a raw task",
            )
    return Parallel(branches=made)


def as_element(given: StepLike) -> Element:
    """A bare task becomes a step; what is already an element stays."""
    if isinstance(given, Step | RawTask | Parallel):
        return given
    return step(given)


def as_elements(given: Sequence[StepLike]) -> tuple[Element, ...]:
    """A series of steps."""
    return tuple(as_element(element) for element in given)


def walk(elements: Sequence[Element]) -> Iterator[Step | RawTask]:
    """Every single step, in order, branch by branch."""
    for element in elements:
        if isinstance(element, Parallel):
            for branch in element.branches:
                yield from walk(branch)
        else:
            yield element


def _no_step(given: object) -> PipelineError:
    if isinstance(given, FunctionType):
        return PipelineError(
            f"{given.__name__} is a plain function, and a step needs a task",
            hint="decorate it with @task(...)",
        )
    return PipelineError(
        f"{given!r} is no step",
        hint="a step is a task, step(...), parallel(...) or a raw task such as human(...)",
    )

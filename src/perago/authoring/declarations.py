"""What an imported module declares, and how a name is looked up in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType

from perago.authoring.pipeline import Pipeline
from perago.authoring.tasks import AnyTask, Task
from perago.authoring.wording import listed, suggest
from perago.domain.errors import TargetError


@dataclass(frozen=True, slots=True, kw_only=True)
class Declarations:
    """Tasks and pipelines, each once, in the order in which they were found."""

    tasks: tuple[AnyTask, ...] = ()
    pipelines: tuple[Pipeline, ...] = ()


def collect(module: ModuleType, target: str) -> Declarations:
    """Everything that a module declares or imports, or `TargetError` when that is nothing."""
    found = _declared(module)
    if not found:
        raise TargetError(
            f"{target}: the module has no task and no pipeline{_what_there_is(module)}",
            hint="declare one with @task(...) or Pipeline(...)",
        )
    return merge([_as_declarations(thing) for thing in found.values()], target)


def find(module: ModuleType, name: str, target: str) -> Declarations:
    """One declaration, by its variable or by its own name."""
    found = _declared(module)
    if name in found:
        return _as_declarations(found[name])
    by_name = {id(thing): thing for thing in found.values() if thing.name == name}
    if len(by_name) == 1:
        return _as_declarations(*by_name.values())
    if by_name:
        variables = [key for key, thing in found.items() if id(thing) in by_name]
        raise TargetError(
            f"{target}: {name!r} names more than one thing",
            hint=f"use one of the variables {listed(variables)}",
        )
    there = vars(module).get(name)
    if isinstance(there, FunctionType):
        raise TargetError(
            f"{target}: {name!r} is a plain function", hint="decorate it with @task(...)"
        )
    if there is not None:
        raise TargetError(
            f"{target}: {name!r} is a {type(there).__name__}, neither a task nor a pipeline",
            hint=f"the module has {listed(found)}",
        )
    known = {*found, *(thing.name for thing in found.values())}
    raise TargetError(
        f"{target}: there is no task or pipeline {name!r}{suggest(name, known)}",
        hint=f"the module has {listed(found)}",
    )


def merge(parts: Sequence[Declarations], target: str) -> Declarations:
    """Several declarations as one; two different tasks of one name are refused."""
    tasks: dict[str, AnyTask] = {}
    pipelines: dict[int, Pipeline] = {}
    for part in parts:
        pipelines.update({id(pipeline): pipeline for pipeline in part.pipelines})
        for task in part.tasks:
            _refuse_twin(tasks.setdefault(task.name, task), task, target)
    # A pipeline's own tasks count too: a worker that serves it runs them.
    for pipeline in pipelines.values():
        for task in pipeline.tasks:
            _refuse_twin(tasks.setdefault(task.name, task), task, target)
    return Declarations(tasks=tuple(tasks.values()), pipelines=tuple(pipelines.values()))


def choose_pipeline(declarations: Declarations, target: str) -> Pipeline:
    """The one pipeline to run; a single task makes a pipeline of its own."""
    pipelines, tasks = declarations.pipelines, declarations.tasks
    if len(pipelines) == 1:
        return pipelines[0]
    if not pipelines and len(tasks) == 1:
        return Pipeline.of_task(tasks[0])
    what = "pipelines" if pipelines else "tasks"
    names = [declared.name for declared in pipelines or tasks]
    raise TargetError(
        f"{target} declares {len(names)} {what}: {listed(names)}",
        hint=f"say which: {target}:{names[0]}",
    )


def _declared(module: ModuleType) -> Mapping[str, AnyTask | Pipeline]:
    return {
        name: thing for name, thing in vars(module).items() if isinstance(thing, Task | Pipeline)
    }


def _as_declarations(thing: AnyTask | Pipeline) -> Declarations:
    if isinstance(thing, Pipeline):
        return Declarations(tasks=tuple(thing.tasks), pipelines=(thing,))
    return Declarations(tasks=(thing,))


def _refuse_twin(first: AnyTask, second: AnyTask, target: str) -> None:
    if first is not second:
        raise TargetError(
            f"{target}: two tasks are named {first.name!r}: {first.location} and {second.location}",
            hint="the orchestrator knows a task by its name; rename one of them",
        )


def _what_there_is(module: ModuleType) -> str:
    functions = [
        name
        for name, thing in vars(module).items()
        if isinstance(thing, FunctionType)
        and thing.__module__ == module.__name__
        and not name.startswith("_")
    ]
    if not functions:
        return ""
    if len(functions) == 1:
        return f"; {functions[0]!r} is a plain function: decorate it with @task(...)"
    return f"; {listed(functions)} are plain functions: decorate them with @task(...)"

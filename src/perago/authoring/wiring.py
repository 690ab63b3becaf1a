"""Steps -> Conductor workflow tasks, each wired to what it needs.

Invariant: the workspace input of every step is the output of the last writing step before it, or
the workflow's own input; read-only steps never advance it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from perago.authoring.expressions import CurrentWorkspace, Expression, PipelineParam
from perago.authoring.models import PayloadModel
from perago.authoring.raw_tasks import RawTask
from perago.authoring.schemas import describe_object
from perago.authoring.scope import INPUT_WORKSPACE, Scope
from perago.authoring.steps import Element, Parallel, Step, walk
from perago.authoring.wording import describe_validation, listed, suggest
from perago.domain.errors import PipelineError
from perago.domain.outcome import JsonObject, JsonValue

REFERENCE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """A pipeline's steps as workflow tasks, and where its results come from.

    `workspace` is None for a pipeline without one.
    """

    tasks: list[JsonObject]
    workspace: str | None
    writes_workspace: bool
    results: Mapping[str, str]


def wire(elements: Sequence[Element], params: PayloadModel | None) -> Wiring:
    """Wire a whole pipeline, or raise `PipelineError` naming the step that cannot be."""
    steps = list(walk(elements))
    _check_references(steps)
    _check_task_names(steps)
    scope = Scope(
        at="",
        params=params,
        over={},
        beside=frozenset(),
        known=frozenset(step.reference for step in steps),
        workspace=INPUT_WORKSPACE,
    )
    tasks, after = _Wirer(scope.known).series(elements, scope)
    return Wiring(
        tasks=tasks,
        workspace=after.workspace if any(map(_uses_workspace, steps)) else None,
        writes_workspace=any(step.writes_workspace for step in steps),
        results={
            step.reference: f"${{{step.reference}.output.result}}"
            for step in steps
            if isinstance(step, Step)
        },
    )


class _Wirer:
    """Goes through the elements in order; keeps count of the forks it named."""

    def __init__(self, taken: frozenset[str]) -> None:
        self.taken = taken
        self.forks = 0

    def series(self, elements: Sequence[Element], scope: Scope) -> tuple[list[JsonObject], Scope]:
        """Wire steps that follow each other; what comes back is the scope of the next one."""
        tasks: list[JsonObject] = []
        for element in elements:
            if isinstance(element, Parallel):
                made, scope = self.fork(element, scope)
                tasks += made
                continue
            reference = element.reference
            tasks.append(_single(element, replace(scope, at=reference)))
            scope = replace(
                scope,
                over={**scope.over, reference: element},
                workspace=f"${{{reference}.output.workspace}}"
                if element.writes_workspace
                else scope.workspace,
            )
        return tasks, scope

    def fork(self, element: Parallel, scope: Scope) -> tuple[list[JsonObject], Scope]:
        """Wire branches; each sees what was over before the fork, and nothing of the others."""
        fork, join = self.name_pair()
        members = [
            frozenset(step.reference for step in walk(branch)) for branch in element.branches
        ]
        branches: list[JsonValue] = []
        last: list[JsonValue] = []
        over = dict(scope.over)
        for branch, own in zip(element.branches, members, strict=True):
            others = frozenset[str]().union(*members) - own
            inner = replace(scope, beside=scope.beside | others)
            tasks, after = self.series(branch, inner)
            branches.append(list(tasks))
            last.append(tasks[-1]["taskReferenceName"])
            over |= after.over
        return [
            _workflow_task(fork, "FORK_JOIN", forkTasks=branches),
            _workflow_task(join, "JOIN", joinOn=last),
        ], replace(scope, over=over)

    def name_pair(self) -> tuple[str, str]:
        """Reference names for a fork and its join, counted so that they are stable."""
        while True:
            self.forks += 1
            pair = f"fork_{self.forks}", f"join_{self.forks}"
            if self.taken.isdisjoint(pair):
                return pair


def _single(element: Step | RawTask, scope: Scope) -> JsonObject:
    given: JsonObject = {}
    if isinstance(element, Step):
        if element.task.workspace is not None:
            given["workspace"] = scope.workspace
        given["params"] = _params(element, scope)
        return {
            "name": element.task.name,
            "taskReferenceName": element.reference,
            "type": "SIMPLE",
            "inputParameters": given,
        }
    if element.writes_workspace:
        given["workspace"] = scope.workspace
    rendered = scope.render(element.input, texts=True)
    assert isinstance(rendered, dict)
    return {
        "name": element.name,
        "taskReferenceName": element.reference,
        "type": element.type,
        "inputParameters": given | rendered,
        **element.fields,
    }


def _params(step: Step, scope: Scope) -> JsonObject:
    """Explicit params first, then those that the pipeline has too; the rest must have defaults."""
    model = step.task.body.params
    for name in step.params:
        if name not in model.input_fields:
            raise scope.refusal(
                f"task {step.task.name!r} has no param {name!r}{suggest(name, model.input_fields)}",
                hint=f"{model.name} has {listed(model.input_fields)}",
            )
    shared = scope.params.input_fields if scope.params is not None else {}
    params: JsonObject = {}
    for name in model.input_fields:
        if name in step.params:
            params[name] = scope.render(step.params[name], texts=False)
        elif name in shared:
            params[name] = scope.render(PipelineParam(name), texts=False)
    if lacking := [name for name in model.required if name not in params]:
        raise scope.refusal(
            f"nothing gives task {step.task.name!r} its required params {listed(lacking)}",
            hint="add them to the pipeline's params model, or give them: "
            f"step({step.task.name}, params={{{lacking[0]!r}: ...}})",
        )
    _check_literals(step, params, scope)
    return params


def _check_literals(step: Step, params: JsonObject, scope: Scope) -> None:
    """What is known now is checked now, by the task's own model."""
    literals = {
        name: value
        for name, value in params.items()
        if name in step.params and not _holds_expression(step.params[name])
    }
    try:
        step.task.body.params.validate(literals)
    except ValidationError as error:
        wrong = describe_validation(error, at="params", values=literals, only=literals)
        if wrong:
            raise scope.refusal(
                "; ".join(wrong),
                hint=f"{step.task.body.params.name} is "
                f"{describe_object(step.task.body.params.input_schema)}",
            ) from None


def _holds_expression(value: object) -> bool:
    match value:
        case Mapping():
            return any(map(_holds_expression, value.values()))
        case list() | tuple():
            return any(map(_holds_expression, value))
        case _:
            return isinstance(value, Expression)


def _uses_workspace(step: Step | RawTask) -> bool:
    if isinstance(step, Step):
        return step.task.workspace is not None
    return step.writes_workspace or _asks_for_workspace(step.input)


def _asks_for_workspace(value: object) -> bool:
    match value:
        case CurrentWorkspace():
            return True
        case str():
            return INPUT_WORKSPACE[:-1] in value
        case Mapping():
            return any(map(_asks_for_workspace, value.values()))
        case list() | tuple():
            return any(map(_asks_for_workspace, value))
        case _:
            return False


def _workflow_task(reference: str, kind: str, **fields: JsonValue) -> JsonObject:
    return {
        "name": reference,
        "taskReferenceName": reference,
        "type": kind,
        "inputParameters": {},
        **fields,
    }


def _check_references(steps: Sequence[Step | RawTask]) -> None:
    seen: set[str] = set()
    for step in steps:
        reference = step.reference
        if not REFERENCE.fullmatch(reference) or reference == "workflow":
            raise PipelineError(
                f"{reference!r} cannot be the reference name of a step",
                hint="use letters, digits, '_' and '-', beginning with a letter, not 'workflow'",
            )
        if reference in seen:
            raise PipelineError(
                f"two steps have the reference name {reference!r}",
                hint=f'give one of them a name of its own: step(..., ref="{reference}_2")',
            )
        seen.add(reference)


def _check_task_names(steps: Sequence[Step | RawTask]) -> None:
    seen: dict[str, Step] = {}
    for step in steps:
        if not isinstance(step, Step):
            continue
        first = seen.setdefault(step.task.name, step)
        if first.task is not step.task:
            raise PipelineError(
                f"two tasks are named {step.task.name!r}: {first.task.location} and "
                f"{step.task.location}",
                hint="the orchestrator knows a task by its name; rename one of them",
            )

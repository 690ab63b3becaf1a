"""Brings an orchestrator's definitions to where the code is: first a plan, then its effect.

Invariant: nothing is written unless the whole plan is acceptable. A TaskDef has no version, so
code that is older than what is registered must not change half of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from perago.app.definition_diff import Difference, find_differences
from perago.authoring import DefinitionSet
from perago.domain.errors import UsageError
from perago.domain.outcome import JsonObject
from perago.ports import Orchestrator


class Kind(StrEnum):
    """What is defined."""

    TASK = "task"
    WORKFLOW = "workflow"


class Change(StrEnum):
    """What registering a definition would do."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a definition must not be registered, and what to do."""

    reason: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDefinition:
    """One definition and what becomes of it; a task has no version."""

    kind: Kind
    name: str
    definition: JsonObject
    change: Change
    version: int | None = None
    differences: tuple[Difference, ...] = ()
    refusal: Refusal | None = None

    @property
    def title(self) -> str:
        """How people call it."""
        version = "" if self.version is None else f" v{self.version}"
        return f"{self.kind} {self.name}{version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationPlan:
    """Every definition, tasks first: a server may refuse a workflow of tasks it does not know."""

    definitions: tuple[PlannedDefinition, ...]

    @property
    def to_write(self) -> list[PlannedDefinition]:
        """What is not there yet as it is declared."""
        return [one for one in self.definitions if one.change is not Change.UNCHANGED]

    @property
    def refused(self) -> list[PlannedDefinition]:
        """What must not be registered."""
        return [one for one in self.definitions if one.refusal is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What an orchestrator has of the names that are declared.

    `workflows` by name and version, the declared versions only; `newest` by name.
    """

    tasks: Mapping[str, JsonObject] = field(default_factory=dict)
    workflows: Mapping[tuple[str, int], JsonObject] = field(default_factory=dict)
    newest: Mapping[str, int] = field(default_factory=dict)


def read_registered(orchestrator: Orchestrator, declared: DefinitionSet) -> Registered:
    """Ask for every declared name; two questions for each workflow, one for each task."""
    tasks, workflows, newest = {}, {}, {}
    for definition in declared.task_definitions:
        name = str(definition["name"])
        if (found := orchestrator.find_task_definition(name)) is not None:
            tasks[name] = found
    for definition in declared.workflow_definitions:
        name, version = _identity(definition)
        latest = orchestrator.find_workflow_definition(name)
        if latest is None:
            continue
        newest[name] = _identity(latest)[1]
        found = orchestrator.find_workflow_definition(name, version)
        if found is not None:
            workflows[name, version] = found
    return Registered(tasks=tasks, workflows=workflows, newest=newest)


def plan_registration(declared: DefinitionSet, registered: Registered) -> RegistrationPlan:
    """What would be new, changed, unchanged or refused."""
    # A task whose lease is too short for any publication cannot even be declared.
    tasks = [_plan_task(one, registered) for one in declared.task_definitions]
    newest: dict[str, int] = {}
    for name, version in map(_identity, declared.workflow_definitions):
        newest[name] = max(version, newest.get(name, version))
    workflows = [_plan_workflow(one, registered, newest) for one in declared.workflow_definitions]
    return RegistrationPlan(definitions=(*tasks, *workflows))


def refuse_bad_plan(plan: RegistrationPlan) -> None:
    """Raise for what must not be registered, naming all of it."""
    refused = [(one, one.refusal) for one in plan.definitions if one.refusal is not None]
    if refused:
        raise UsageError(
            "nothing was registered: "
            + "; ".join(f"{one.title}: {refusal.reason}" for one, refusal in refused),
            hint="; ".join(dict.fromkeys(refusal.hint for _, refusal in refused)),
        )


def register(orchestrator: Orchestrator, plan: RegistrationPlan) -> None:
    """Write what is new or changed, and nothing else."""
    refuse_bad_plan(plan)
    for planned in plan.to_write:
        if planned.kind is Kind.TASK:
            orchestrator.register_task(planned.definition)
        else:
            orchestrator.register_workflow(planned.definition)


def _plan_task(definition: JsonObject, registered: Registered) -> PlannedDefinition:
    name = str(definition["name"])
    change, differences = _compare(registered.tasks.get(name), definition)
    return PlannedDefinition(
        kind=Kind.TASK,
        name=name,
        definition=definition,
        change=change,
        differences=differences,
    )


def _plan_workflow(
    definition: JsonObject, registered: Registered, newest: Mapping[str, int]
) -> PlannedDefinition:
    name, version = _identity(definition)
    change, differences = _compare(registered.workflows.get((name, version)), definition)
    theirs = registered.newest.get(name, version)
    refusal = None
    # The code may have several versions; it is older when its newest one is.
    if theirs > newest[name]:
        refusal = Refusal(
            reason=f"the server has version {theirs}, newer than the code",
            hint=f"register from the code of version {theirs}, or raise the version of {name!r} "
            f"above {theirs}",
        )
    return PlannedDefinition(
        kind=Kind.WORKFLOW,
        name=name,
        version=version,
        definition=definition,
        change=change,
        differences=differences,
        refusal=refusal,
    )


def _compare(
    registered: JsonObject | None, declared: JsonObject
) -> tuple[Change, tuple[Difference, ...]]:
    if registered is None:
        return Change.NEW, ()
    differences: Sequence[Difference] = find_differences(registered, declared)
    return (Change.CHANGED if differences else Change.UNCHANGED), tuple(differences)


def _identity(definition: JsonObject) -> tuple[str, int]:
    version = definition.get("version")
    return str(definition["name"]), version if isinstance(version, int) else 1

"""What must be true at the orchestrator before a worker takes work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perago.app.definition_diff import find_differences
from perago.authoring import AnyTask, build_task_definition
from perago.domain.budget import explain_unpublishable_lease
from perago.domain.errors import InvalidDefinitionError, NotFoundInOrchestratorError
from perago.domain.outcome import JsonObject
from perago.ports import Orchestrator


def require_task_definitions(
    tasks: Sequence[AnyTask], orchestrator: Orchestrator
) -> dict[str, JsonObject]:
    """The TaskDefs of these tasks as the orchestrator has them.

    Raises where one is missing, or gives so short a lease that no attempt could ever publish.
    """
    found = {task.name: orchestrator.find_task_definition(task.name) for task in tasks}
    missing = sorted(name for name, definition in found.items() if definition is None)
    if missing:
        raise NotFoundInOrchestratorError(
            f"the orchestrator does not know {', '.join(missing)}",
            hint="`perago register TARGET` tells it what your code declares",
        )
    definitions = {name: definition for name, definition in found.items() if definition is not None}
    problems = [
        f"{task.name}: {problem}"
        for task in tasks
        if task.writes_workspace
        and (
            problem := explain_unpublishable_lease(
                _response_seconds(definitions[task.name]), task.controls.publish_budget
            )
        )
    ]
    if problems:
        raise InvalidDefinitionError(
            "; ".join(problems),
            hint="raise response_seconds in the task's TimeoutPolicy and register it again, or "
            "lower the merge time-out in its PublishBudget",
        )
    return definitions


def find_task_differences(
    tasks: Sequence[AnyTask], registered: Mapping[str, JsonObject]
) -> dict[str, list[str]]:
    """The fields that are registered otherwise than declared, by task; what is equal is left out.

    A worker goes on all the same: during a rolling upgrade old and new code run side by side.
    """
    found = {
        task.name: [
            difference.path
            for difference in find_differences(registered[task.name], build_task_definition(task))
        ]
        for task in tasks
    }
    return {name: paths for name, paths in found.items() if paths}


def _response_seconds(definition: JsonObject) -> float:
    value = definition.get("responseTimeoutSeconds")
    # Conductor fills it in where a definition has none; an answer without it promises nothing.
    return float(value) if isinstance(value, int | float) else 0.0

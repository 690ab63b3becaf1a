"""Everything that TARGETs make an orchestrator know: the one source of `extract` and `register`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perago.authoring.declarations import Declarations
from perago.authoring.definitions import build_task_definition
from perago.authoring.pipeline import Pipeline
from perago.authoring.tasks import AnyTask
from perago.domain.errors import PipelineError
from perago.domain.outcome import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionSet:
    """TaskDefs and WorkflowDefs, and the tasks that the former were made of."""

    tasks: tuple[AnyTask, ...]
    task_definitions: tuple[JsonObject, ...]
    workflow_definitions: tuple[JsonObject, ...]


def build_definition_set(declarations: Declarations) -> DefinitionSet:
    """The definitions of what was declared; a task that only a pipeline names is among them."""
    return _build(declarations.tasks, declarations.pipelines)


def build_pipeline_definitions(pipeline: Pipeline) -> DefinitionSet:
    """The definitions that a run of one pipeline needs."""
    return _build((), (pipeline,))


def _build(tasks: Sequence[AnyTask], pipelines: Sequence[Pipeline]) -> DefinitionSet:
    _refuse_twins(pipelines)
    every = dict.fromkeys([*tasks, *(task for pipeline in pipelines for task in pipeline.tasks)])
    return DefinitionSet(
        tasks=tuple(every),
        task_definitions=tuple(build_task_definition(task) for task in every),
        workflow_definitions=tuple(pipeline.workflow_definition() for pipeline in pipelines),
    )


def _refuse_twins(pipelines: Sequence[Pipeline]) -> None:
    known: set[tuple[str, int]] = set()
    for pipeline in pipelines:
        identity = pipeline.name, pipeline.version
        if identity in known:
            raise PipelineError(
                f"two pipelines are {pipeline.name!r} version {pipeline.version}",
                hint="an orchestrator knows a workflow by its name and version; change one of them",
            )
        known.add(identity)

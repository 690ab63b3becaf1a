"""What a task author touches: tasks, guardrails, controls, pipelines.

`perago` exports what most authors need; the rest is here.
"""

from perago.authoring.context import TaskContext
from perago.authoring.controls import Limits, RetryPolicy, TaskControls, TimeoutPolicy
from perago.authoring.declarations import Declarations
from perago.authoring.definition_set import (
    DefinitionSet,
    build_definition_set,
    build_pipeline_definitions,
)
from perago.authoring.definitions import build_task_definition, warnings_of
from perago.authoring.expressions import current_workspace, pipeline_param, result_of
from perago.authoring.guardrails import (
    forbid_glob,
    require_columns,
    require_dir,
    require_file,
    require_glob,
    require_no_nulls,
    require_rows,
    require_schema,
    require_unique,
)
from perago.authoring.payload import TaskInput, parse_workspace
from perago.authoring.pipeline import Pipeline
from perago.authoring.raw_tasks import RawTask, http, human, raw, sub_workflow, wait
from perago.authoring.signature import BodySignature, WorkspaceKind
from perago.authoring.steps import Parallel, Step, parallel, step
from perago.authoring.targets import load_pipeline, load_targets
from perago.authoring.tasks import AnyTask, Task, task
from perago.authoring.workspace import WorkspaceSpec

__all__ = [
    "AnyTask",
    "BodySignature",
    "Declarations",
    "DefinitionSet",
    "Limits",
    "Parallel",
    "Pipeline",
    "RawTask",
    "RetryPolicy",
    "Step",
    "Task",
    "TaskContext",
    "TaskControls",
    "TaskInput",
    "TimeoutPolicy",
    "WorkspaceKind",
    "WorkspaceSpec",
    "build_definition_set",
    "build_pipeline_definitions",
    "build_task_definition",
    "current_workspace",
    "forbid_glob",
    "http",
    "human",
    "load_pipeline",
    "load_targets",
    "parallel",
    "parse_workspace",
    "pipeline_param",
    "raw",
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
    "sub_workflow",
    "task",
    "wait",
    "warnings_of",
]

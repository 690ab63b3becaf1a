"""Starts a workflow instance, brings a broken one back to life, and tells how it went."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from perago.authoring import Pipeline, build_pipeline_definitions
from perago.domain.attempt import Attempt, AttemptStatus
from perago.domain.errors import NotFoundInOrchestratorError, OrchestratorError
from perago.domain.ids import BranchName, CommitId, RepositoryName, WorkerId, WorkflowId
from perago.domain.outcome import JsonObject, read_ref
from perago.domain.workflow import TaskState, WorkflowState
from perago.ports import Orchestrator, WorkspaceStore

_MOST_LOOKED_AT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What to run on what. `ref` is a branch, a commit or a short commit id; None is the head."""

    pipeline: Pipeline
    params: JsonObject
    repository: RepositoryName
    branch: BranchName
    ref: str | None = None


def start_run(
    request: RunRequest, *, store: WorkspaceStore, orchestrator: Orchestrator
) -> WorkflowId:
    """Register the definitions, pin the input commit and start an instance."""
    declared = build_pipeline_definitions(request.pipeline)
    for definition in declared.task_definitions:
        orchestrator.register_task(definition)
    for definition in declared.workflow_definitions:
        orchestrator.register_workflow(definition)
    return launch_run(request, store=store, orchestrator=orchestrator)


def launch_run(
    request: RunRequest, *, store: WorkspaceStore, orchestrator: Orchestrator
) -> WorkflowId:
    """Pin the input commit and start an instance of what is registered."""
    pipeline = request.pipeline
    workflow_input: JsonObject = {"params": pipeline.validate_params(request.params)}
    if pipeline.needs_workspace:
        commit = resolve_input(request, store)
        workflow_input["workspace"] = {
            "repository": request.repository,
            "branch": request.branch,
            "ref_type": "commit",
            "ref": commit,
        }
    return orchestrator.start_workflow(
        pipeline.name, workflow_input=workflow_input, version=pipeline.version
    )


def resolve_input(request: RunRequest, store: WorkspaceStore) -> CommitId:
    """The immutable commit that the first step reads."""
    if request.ref is not None:
        return store.resolve(request.repository, request.ref)
    return store.head(request.repository, request.branch).id


def find_dead_attempts(
    workflow: WorkflowState, is_dead: Callable[[WorkerId], bool]
) -> list[Attempt]:
    """What dead workers hold: nobody but the lease would ever end it."""
    return [
        task.attempt
        for task in workflow.tasks
        if task.status is AttemptStatus.IN_PROGRESS
        and task.attempt.worker_id is not None
        and is_dead(task.attempt.worker_id)
    ]


def find_run(orchestrator: Orchestrator, text: str) -> WorkflowState:
    """A workflow instance by its id, a unique beginning of it among the newest, or `last`."""
    newest = orchestrator.workflow_ids(limit=1 if text == "last" else _MOST_LOOKED_AT)
    matches = newest if text == "last" else [run for run in newest if run.startswith(text)]
    if not matches:
        # One that is older than those is still known by its whole id.
        with suppress(NotFoundInOrchestratorError):
            return orchestrator.workflow(WorkflowId(text))
    if len(matches) > 1:
        raise OrchestratorError(
            f"{text!r} is the beginning of {len(matches)} runs", hint="give more of the id"
        )
    if not matches:
        raise NotFoundInOrchestratorError(
            f"there is no run {text!r}", hint="`perago status` lists the runs"
        )
    return orchestrator.workflow(matches[0])


def list_published(workflow: WorkflowState) -> list[tuple[TaskState, CommitId]]:
    """The commits that the instance's completed steps published, in order."""
    published: list[tuple[TaskState, CommitId]] = []
    for task in workflow.tasks:
        before, after = read_ref(task.input), read_ref(task.output)
        if task.status is AttemptStatus.COMPLETED and after is not None and after != before:
            published.append((task, after))
    return published

"""Answers for a person: completes or fails a HUMAN step by its task id."""

from __future__ import annotations

from dataclasses import dataclass

from perago.domain.attempt import Attempt
from perago.domain.errors import NotFoundInOrchestratorError, UsageError
from perago.domain.ids import BranchName, RepositoryName
from perago.domain.outcome import Completed, Failed, JsonObject, Outcome, Phase
from perago.domain.workflow import TaskState, WorkflowState
from perago.ports import Orchestrator, WorkspaceStore


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanAnswer:
    """What a person says of a step.

    `failure` is the reason why it failed; `ref` is where the workspace goes on, the branch's head
    unless given.
    """

    output: JsonObject
    ref: str | None = None
    failure: str | None = None


def complete_step(
    workflow: WorkflowState,
    reference_name: str,
    answer: HumanAnswer,
    *,
    orchestrator: Orchestrator,
    store: WorkspaceStore,
) -> JsonObject | None:
    """Report the answer; return the output that was reported, None for a failure."""
    task = find_open_human(workflow, reference_name)
    if answer.failure is not None:
        _report(task.attempt, Failed(reason=answer.failure, phase=Phase.BODY), orchestrator)
        return None
    output = dict(answer.output)
    if "workspace" not in output and isinstance(task.input.get("workspace"), dict):
        output["workspace"] = _advance_workspace(task.input["workspace"], answer.ref, store)
    _report(task.attempt, Completed(output=output), orchestrator)
    return output


def find_open_human(workflow: WorkflowState, reference_name: str) -> TaskState:
    """The open HUMAN task of that name, or an error that says what there is instead."""
    named = [task for task in workflow.tasks if task.attempt.reference_name == reference_name]
    if not named:
        waiting = [
            task.attempt.reference_name
            for task in workflow.tasks
            if task.task_type == "HUMAN" and not task.status.is_terminal
        ]
        raise NotFoundInOrchestratorError(
            f"run {workflow.id} ({workflow.status}) has no step {reference_name!r} under way",
            hint=f"waiting for a person: {', '.join(waiting) or 'none'}",
        )
    task = named[-1]
    if task.task_type != "HUMAN":
        raise UsageError(
            f"step {reference_name!r} is a {task.task_type} task, not a HUMAN one",
            hint="only a HUMAN step is completed by hand; a worker reports its own",
        )
    if task.status.is_terminal:
        raise UsageError(
            f"step {reference_name!r} of run {workflow.id} is over: {task.status}",
            hint=f"`perago status {workflow.id}` shows the run",
        )
    return task


def _report(attempt: Attempt, outcome: Outcome, orchestrator: Orchestrator) -> None:
    """Report, or say that the step was answered or ended since it was looked at."""
    stale = orchestrator.report(attempt, outcome)
    if stale is not None:
        raise UsageError(
            f"step {attempt.reference_name!r} of run {attempt.workflow_id} did not take the "
            f"answer: {stale}",
            hint=f"`perago status {attempt.workflow_id}` shows the run",
        )


def _advance_workspace(workspace: object, ref: str | None, store: WorkspaceStore) -> JsonObject:
    """The workspace after a person's edits: the steps that follow read it there."""
    assert isinstance(workspace, dict)
    repository = RepositoryName(str(workspace.get("repository")))
    branch = BranchName(str(workspace.get("branch")))
    commit = store.head(repository, branch).id if ref is None else store.resolve(repository, ref)
    return {**workspace, "ref": commit}

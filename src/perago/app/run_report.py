"""What a workflow instance came to: the commits it made, and the step it failed at."""

from __future__ import annotations

from dataclasses import dataclass

from perago.app.follow import list_published
from perago.app.transfer import diff_commits
from perago.domain.attempt import AttemptStatus
from perago.domain.ids import CommitId, RepositoryName
from perago.domain.outcome import JsonObject
from perago.domain.workflow import TaskState, WorkflowState, WorkflowStatus
from perago.ports import WorkspaceStore


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedStep:
    """A step that made a commit, and how many objects that commit adds, changes and removes."""

    reference_name: str
    retry_count: int
    repository: RepositoryName
    commit: CommitId
    changes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The end of a run, or how far it is."""

    workflow: WorkflowState
    published: tuple[PublishedStep, ...]

    @property
    def failed_step(self) -> TaskState | None:
        """The attempt that the instance failed with, if it failed with one."""
        if self.workflow.status not in (WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT):
            return None
        bad = (
            AttemptStatus.FAILED,
            AttemptStatus.FAILED_WITH_TERMINAL_ERROR,
            AttemptStatus.TIMED_OUT,
        )
        return next((task for task in reversed(self.workflow.tasks) if task.status in bad), None)


def build_run_report(workflow: WorkflowState, store: WorkspaceStore) -> RunReport:
    """Look up what each publication changed."""
    published = []
    for task, commit in list_published(workflow):
        repository, before = _workspace(task.input)
        changes = diff_commits(store, repository, before, commit)
        published.append(
            PublishedStep(
                reference_name=task.attempt.reference_name,
                retry_count=task.attempt.retry_count,
                repository=repository,
                commit=commit,
                changes=len(changes.written) + len(changes.removed),
            )
        )
    return RunReport(workflow=workflow, published=tuple(published))


def _workspace(payload: JsonObject) -> tuple[RepositoryName, CommitId]:
    workspace = payload["workspace"]
    assert isinstance(workspace, dict)
    return RepositoryName(str(workspace["repository"])), CommitId(str(workspace["ref"]))

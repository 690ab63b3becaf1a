"""Try and Confirm: stages what changed, then moves the target branch, or nothing.

Invariant: a merge or relocation is sent at most once, only after a plan was made from a freshly
read HEAD and the attempt fence was passed once more, and with time left on the clock; and it counts
as published only if the result, read back, has the input ref as its only parent and the staged tree
as its content.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NoReturn, assert_never

from perago.app.fence import AttemptFence
from perago.domain.attempt import Attempt
from perago.domain.errors import HeadMovedError, OutcomeUnknownError, PublishFenceError
from perago.domain.ids import BranchName, CommitId, ExecutionId, ObjectPath
from perago.domain.publication import (
    Commit,
    Keep,
    Merge,
    PublicationPhase,
    PublicationPlan,
    Refuse,
    Relocate,
    Replace,
    Resolution,
    StagedWorkspace,
    build_publication_metadata,
    build_workspace_publication_plan,
    explain_unverified,
    resolve_unknown_outcome,
)
from perago.domain.workspace import WorkspaceRef
from perago.ports import (
    DirectStore,
    Failpoint,
    Failpoints,
    Fencing,
    LastCheck,
    LocalFile,
    OnTransfer,
    TimeCheck,
    WorkspaceStore,
)

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.5
"""Between two looks at HEAD while a call may still land."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedChanges:
    """A staging with the commit it holds."""

    staged: StagedWorkspace
    commit: Commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Publishes for one execution of one attempt."""

    store: WorkspaceStore
    fence: AttemptFence
    failpoints: Failpoints
    attempt: Attempt
    execution_id: ExecutionId
    workspace: WorkspaceRef
    replace_unlabelled: bool = True

    def stage(
        self,
        branch: BranchName,
        *,
        writes: Mapping[ObjectPath, LocalFile],
        deletes: Collection[ObjectPath],
        on_transfer: OnTransfer,
    ) -> StagedChanges:
        """Commit the changes to a staging branch that already stands at the input ref."""
        commit = self.store.commit_changes(
            self.workspace.repository,
            branch,
            writes=writes,
            deletes=deletes,
            message=self._message,
            metadata=self._metadata(PublicationPhase.TRY, branch, None),
            on_transfer=on_transfer,
        )
        return self._staged(branch, commit)

    def stage_written(self, branch: BranchName, store: DirectStore) -> StagedChanges:
        """Commit what a body wrote by itself to a staging branch that stands at the input ref."""
        commit = store.commit_staged(
            self.workspace.repository,
            branch,
            expected_head=self.workspace.ref,
            message=self._message,
            metadata=self._metadata(PublicationPhase.TRY, branch, None),
        )
        return self._staged(branch, commit)

    def _staged(self, branch: BranchName, commit: Commit) -> StagedChanges:
        staged = StagedWorkspace(
            repository=self.workspace.repository, branch=branch, commit=commit.id
        )
        return StagedChanges(staged=staged, commit=commit)

    def confirm(self, changes: StagedChanges | None) -> CommitId:
        """Pass the publish fence and act on its plan; return the output ref.

        `changes` is None when the workspace did not change.
        """
        plan = self._plan(changes)
        self.failpoints.hit(Failpoint.HEAD_READ, self.attempt)
        match plan:
            case Refuse(reason=reason, head=head):
                self._refuse(reason, head)
            case Keep(head=head):
                return head
            case Merge() | Replace() | Relocate():
                return self._act(plan, changes)
            case _:
                assert_never(plan)

    def _plan(self, changes: StagedChanges | None) -> PublicationPlan:
        head = self.store.head(self.workspace.repository, self.workspace.branch)
        return build_workspace_publication_plan(
            input_ref=self.workspace.ref,
            head=head,
            logical_task=self.attempt.logical_task,
            staged=changes.staged if changes else None,
            replace_unlabelled=self.replace_unlabelled,
        )

    def _act(self, plan: Merge | Replace | Relocate, changes: StagedChanges | None) -> CommitId:
        sent_at = self.fence.clock.elapsed()

        def pass_last_fence() -> TimeCheck:
            self.fence.assert_may_act()
            self.failpoints.hit(Failpoint.FENCED_BEFORE_ACT, self.attempt)
            return pass_clock

        def pass_clock() -> None:
            nonlocal sent_at
            self.fence.assert_in_time()
            self.failpoints.hit(Failpoint.TIMED_BEFORE_ACT, self.attempt)
            sent_at = self.fence.clock.elapsed()

        try:
            moved_to = self._send(plan, pass_last_fence)
        except HeadMovedError as error:
            self._refuse("the branch moved while publishing", error.actual)
        except OutcomeUnknownError as error:
            _log.warning("publish answer not understood, reading head: %s", error.message)
            landed_by = sent_at + self.fence.merge_timeout_seconds
            head = self._read_head(
                plan.expected_head, settled_at=landed_by if error.may_still_happen else sent_at
            )
            return self._resolve(plan, changes, head, error)
        self.failpoints.hit(Failpoint.PUBLISHED, self.attempt)
        self._verify(moved_to, changes)
        self.failpoints.hit(Failpoint.VERIFIED, self.attempt)
        return moved_to.id

    def _send(self, plan: Merge | Replace | Relocate, last_check: LastCheck) -> Commit:
        """Send the one call of the plan; return the commit that should now be published."""
        repository, branch = self.workspace.repository, self.workspace.branch
        timeout = self.fence.merge_timeout_seconds
        match plan:
            case Merge(staged=staged, expected_head=expected):
                return self.store.merge(
                    staged,
                    branch,
                    expected_head=expected,
                    message=self._message,
                    metadata=self._metadata(PublicationPhase.CONFIRM, staged.branch, staged.commit),
                    timeout_seconds=timeout,
                    last_check=last_check,
                )
            case Replace(staged=staged, expected_head=expected):
                _log.info("replacing the abandoned publication %s", expected)
                target = staged.commit
            case Relocate(to=to, expected_head=expected):
                _log.info("taking back the abandoned publication %s", expected)
                target = to
            case _:
                assert_never(plan)
        self.store.relocate(
            repository,
            branch,
            to=target,
            expected_head=expected,
            timeout_seconds=timeout,
            last_check=last_check,
        )
        return self.store.head(repository, branch)

    def _verify(self, moved_to: Commit, changes: StagedChanges | None) -> None:
        """Fail the attempt unless what is published is exactly what was asked for."""
        if changes is None:
            if moved_to.id != self.workspace.ref:
                self._refuse("the branch moved on while it was taken back", moved_to.id)
            return
        reason = explain_unverified(
            published=moved_to, input_ref=self.workspace.ref, staged_tree=changes.commit.tree
        )
        if reason is not None:
            self._refuse(reason, moved_to.id)

    def _read_head(self, expected: CommitId, *, settled_at: float) -> Commit:
        """HEAD after a call whose answer was lost.

        While it is untouched, a server may still be at it: whoever took that for "not published"
        would have the next attempt begin before this one is over. So it counts only when the time
        for the call is up. A store in this machine's own files dies with its process, and has none.
        """
        while True:
            head = self.store.head(self.workspace.repository, self.workspace.branch)
            left = settled_at - self.fence.clock.elapsed()
            is_settled = left <= 0 or self.store.fencing is Fencing.ATOMIC
            if head.id != expected or is_settled or self.fence.lease.is_lost:
                return head
            self.fence.clock.sleep(min(left, _LOOK_SECONDS))

    def _resolve(
        self,
        plan: Merge | Replace | Relocate,
        changes: StagedChanges | None,
        head: Commit,
        error: OutcomeUnknownError,
    ) -> CommitId:
        """Settle an ambiguous answer by what HEAD became; never by sending again."""
        if changes is None:
            if head.id == self.workspace.ref:
                return head.id
            self._refuse(
                f"it cannot be told whether the branch was taken back: {error.message}", head.id
            )
        resolution = resolve_unknown_outcome(
            head=head,
            expected_head=plan.expected_head,
            input_ref=self.workspace.ref,
            staged_tree=changes.commit.tree,
            execution_id=self.execution_id,
        )
        if resolution is Resolution.PUBLISHED:
            return head.id
        self._refuse(f"it was {resolution}: {error.message}", head.id)

    def _refuse(self, reason: str, head: CommitId) -> NoReturn:
        raise PublishFenceError(
            reason,
            repository=self.workspace.repository,
            branch=self.workspace.branch,
            input_ref=self.workspace.ref,
            head=head,
        )

    @property
    def _message(self) -> str:
        """What a reader of the history sees; the same twice, for a staging may become the head."""
        task, reference = self.attempt.task_name, self.attempt.reference_name
        return f"Run {task}" if task == reference else f"Run {task} as {reference}"

    def _metadata(
        self, phase: PublicationPhase, branch: BranchName, commit: CommitId | None
    ) -> dict[str, str]:
        return build_publication_metadata(
            phase=phase,
            attempt=self.attempt,
            execution_id=self.execution_id,
            input_ref=self.workspace.ref,
            staging_branch=branch,
            staging_commit=commit,
        )

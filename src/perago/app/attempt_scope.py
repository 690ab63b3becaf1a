"""What the parts of one execution share: who it is, what it may use, what it must clean up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from perago.app.attempt_policy import AttemptPolicy
from perago.app.attempt_ports import AttemptPorts
from perago.app.fence import AttemptFence
from perago.app.leftovers import Leftovers
from perago.app.phases import PhaseRecorder
from perago.app.publish import Publisher
from perago.authoring import AnyTask
from perago.domain.attempt import Attempt
from perago.domain.changes import ChangeCount
from perago.domain.errors import AlreadyExistsInStoreError, GuardrailViolationError
from perago.domain.ids import BranchName, ExecutionId
from perago.domain.staging import build_staging_name
from perago.domain.workspace import WorkspaceRef
from perago.ports import Failpoint


@dataclass(slots=True, kw_only=True)
class AttemptScope:
    """One execution of one attempt, for those who do its work."""

    task: AnyTask
    attempt: Attempt
    execution_id: ExecutionId
    ports: AttemptPorts
    policy: AttemptPolicy
    fence: AttemptFence
    phases: PhaseRecorder
    leftovers: Leftovers = field(default_factory=Leftovers)
    changes: ChangeCount | None = None
    """What it changed; None until its files were compared."""

    def hit(self, point: Failpoint) -> None:
        """The attempt is at this point."""
        self.ports.failpoints.hit(point, self.attempt)

    def publisher(self, workspace: WorkspaceRef) -> Publisher:
        """Who publishes for this execution."""
        return Publisher(
            store=self.ports.store,
            fence=self.fence,
            failpoints=self.ports.failpoints,
            attempt=self.attempt,
            execution_id=self.execution_id,
            workspace=workspace,
            replace_unlabelled=self.policy.replace_unlabelled,
        )

    def create_staging(self, workspace: WorkspaceRef) -> BranchName:
        """Create this execution's staging branch at the input ref, and note it for cleanup."""
        branch = build_staging_name(self.attempt, self.execution_id)
        self.leftovers.staging = (workspace.repository, branch)
        try:
            self.ports.store.create_branch(workspace.repository, branch, workspace.ref, hidden=True)
        except AlreadyExistsInStoreError:
            self.leftovers.staging = None  # not ours: never write to it, never delete it
            raise
        return branch


def refuse_violations(violations: Sequence[str], *, before_body: bool) -> None:
    """Raise for what guardrails found; before the body that is the input's fault."""
    if violations:
        raise GuardrailViolationError(violations, before_body=before_body)

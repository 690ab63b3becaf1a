"""Every error Perago raises, grouped by what a handler does about it.

::

    PeragoError
    ├── UsageError                   fix the code, the command or the settings; nothing has run
    │   ├── DeclarationError         a task, guardrail or prefix is declared wrongly
    │   ├── PipelineError            steps that cannot be wired, two writers side by side
    │   ├── TargetError              TARGET cannot be imported or names no task
    │   └── SettingsError            a setting is missing or malformed
    ├── EnvironmentUnfitError        fix the machine: no Java, a root that is taken, …
    │   └── WorkspaceRootLockedError another supervisor holds the workspace root
    ├── TaskFailed                   raised by a body: this attempt failed, a retry may succeed
    ├── TaskTerminalError            raised by a body: a retry cannot help
    ├── AttemptError                 the attempt fails and publishes nothing
    │   ├── InvalidInputError        the input's shape, workspace or params are wrong
    │   ├── InvalidResultError       the result does not fit its model, JSON or the size limit
    │   ├── GuardrailViolationError  files break the contract that the task declared
    │   ├── UnmappableObjectError    an object that cannot be a local file
    │   ├── UnpublishableFileError   a local file that cannot be an object
    │   ├── StagingChangedError      somebody else wrote to a staging branch
    │   ├── UnfinishedWriteError     a body returned before a write of its own was over
    │   ├── InsufficientDiskError    the workspace does not fit
    │   └── FenceError               the attempt may no longer publish
    │       ├── StaleAttemptError    the orchestrator no longer counts on this attempt
    │       ├── LeaseLostError       the lease ran out, or is too short to finish a publication
    │       └── PublishFenceError    the target branch is not where it must be
    ├── StoreError                   the workspace store refused or failed
    │   ├── NotFoundInStoreError     no such repository, branch, commit or object
    │   ├── AlreadyExistsInStoreError create-if-absent found one
    │   ├── NothingChangedError      the changes leave everything as it was; no commit
    │   ├── StoreAccessError         a wrong key, a missing permission, a protected branch
    │   ├── HeadMovedError           the expected head was not the head; nothing moved
    │   ├── StoreUnavailableError    the call did nothing; trying later may help
    │   ├── OutcomeUnknownError      the call may or may not have happened: read before you act
    │   └── CorruptStoreError        stored content does not match its own hash
    └── OrchestratorError            the orchestrator refused or failed
        ├── NotFoundInOrchestratorError  no such workflow, task or definition
        ├── InvalidDefinitionError   a definition it cannot run, by name
        ├── OrchestratorAccessError  a wrong key, a missing permission
        └── OrchestratorUnavailableError trying later may help

The tree is pinned by `tests/architecture/test_error_tree.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perago.domain.ids import BranchName, CommitId, RepositoryName


class PeragoError(Exception):
    """The root. `hint` says what the reader can do next."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Callable[..., PeragoError], tuple[object, ...]]:
        # Errors cross process borders, and the default would call a subclass's constructor with
        # the message alone.
        return _restore, (type(self), self.args, self.__dict__)


def _restore(
    kind: type[PeragoError], args: tuple[object, ...], state: dict[str, object]
) -> PeragoError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class UsageError(PeragoError):
    """Fix the code, the command line or the settings; nothing has run yet."""


class DeclarationError(UsageError):
    """A task, guardrail, prefix or control is declared wrongly."""


class PipelineError(UsageError):
    """The steps of a pipeline cannot be wired together safely."""


class TargetError(UsageError):
    """A TARGET cannot be imported, or names no task or pipeline."""


class SettingsError(UsageError):
    """A setting is missing or malformed."""


class EnvironmentUnfitError(PeragoError):
    """The machine lacks something that Perago needs here."""


class WorkspaceRootLockedError(EnvironmentUnfitError):
    """Another supervisor holds the lock of this workspace root."""


class TaskFailed(PeragoError):  # noqa: N818 - the public name that task authors raise
    """Raise it in a body when this attempt failed and another may succeed."""


class TaskTerminalError(PeragoError):
    """Raise it in a body when no retry can help; the workflow's step fails for good."""


class AttemptError(PeragoError):
    """The attempt fails and publishes nothing."""


class InvalidInputError(AttemptError):
    """The task input's shape, workspace or params are wrong."""


class InvalidResultError(AttemptError):
    """The result does not fit its model, is not JSON, or is too large to report."""


class GuardrailViolationError(AttemptError):
    """Files break the contract that the task declared.

    Before the body that is the input's fault and terminal; after it, the attempt's.
    """

    def __init__(self, violations: Sequence[str], *, before_body: bool) -> None:
        self.violations = tuple(violations)
        self.before_body = before_body
        side = "input" if before_body else "output"
        super().__init__(
            f"the {side} breaks the task's contract: " + "; ".join(violations),
            hint=(
                "repair the data at the input ref, or the step that wrote it; a retry cannot help"
                if before_body
                else "repair the body, or the post guardrails that refuse what it left"
            ),
        )


class UnmappableObjectError(AttemptError):
    """An object of the repository cannot be a local file; skipping it would delete it."""

    def __init__(self, object_path: str, reason: str) -> None:
        self.object_path = object_path
        self.reason = reason
        super().__init__(
            f"object {object_path!r} cannot be a local file: {reason}",
            hint="rename or remove the object in the store, or narrow the task's prefix",
        )


class UnpublishableFileError(AttemptError):
    """A file that the body left cannot be published."""

    def __init__(self, message: str, *, path: str, hint: str | None = None) -> None:
        self.path = path
        super().__init__(message, hint=hint)


class StagingChangedError(AttemptError):
    """Something was written to a staging branch after it was judged."""


class UnfinishedWriteError(AttemptError):
    """A body returned while Spark still wrote for it, or after a write that failed halfway."""


class InsufficientDiskError(AttemptError):
    """The workspace does not fit on the local disk, or the disk ran full."""


class FenceError(AttemptError):
    """The attempt may no longer publish."""


class StaleAttemptError(FenceError):
    """The orchestrator no longer counts on this attempt, or could not say."""


class LeaseLostError(FenceError):
    """The lease ran out, or what is left of it is too short to finish a publication."""


class PublishFenceError(FenceError):
    """The target branch is not where this attempt may advance it, and it claims no output.

    Where the fence is soft and others raced, its commit may be on the branch all the same.
    """

    def __init__(
        self,
        reason: str,
        *,
        repository: RepositoryName,
        branch: BranchName,
        input_ref: CommitId,
        head: CommitId | None,
    ) -> None:
        self.reason = reason
        self.repository = repository
        self.branch = branch
        self.input_ref = input_ref
        self.head = head
        super().__init__(
            f"cannot publish to {repository}/{branch}: {reason} "
            f"(input ref {input_ref}, head {head or 'unknown'})",
            hint="look at the branch's history; start a new workflow from the current head",
        )


class StoreError(PeragoError):
    """The workspace store refused or failed."""


class NotFoundInStoreError(StoreError):
    """No such repository, branch, commit or object."""


class AlreadyExistsInStoreError(StoreError):
    """Create-if-absent found one of that name."""


class NothingChangedError(StoreError):
    """The changes leave the tree as it was, and there is never an empty commit."""


class StoreAccessError(StoreError):
    """The store refuses this user: a wrong key, a missing permission, a protected branch."""


class HeadMovedError(StoreError):
    """The branch's head was not the expected one; nothing moved."""

    def __init__(
        self,
        *,
        repository: RepositoryName,
        branch: BranchName,
        expected: CommitId,
        actual: CommitId,
    ) -> None:
        self.repository = repository
        self.branch = branch
        self.expected = expected
        self.actual = actual
        super().__init__(
            f"the head of {repository}/{branch} is {actual}, expected {expected}; nothing moved"
        )


class StoreUnavailableError(StoreError):
    """The call did nothing; trying later may help."""


class OutcomeUnknownError(StoreError):
    """The call may or may not have happened: read before you act, and never send it again.

    `may_still_happen` says that whoever was asked may be at it even now, as after a lost answer.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, may_still_happen: bool = True
    ) -> None:
        super().__init__(message, hint=hint)
        self.may_still_happen = may_still_happen


class CorruptStoreError(StoreError):
    """Stored content does not match its own hash, or is missing."""


class OrchestratorError(PeragoError):
    """The orchestrator refused or failed."""


class NotFoundInOrchestratorError(OrchestratorError):
    """No such workflow, task or definition."""


class InvalidDefinitionError(OrchestratorError):
    """A workflow or task definition that this orchestrator cannot run."""


class OrchestratorAccessError(OrchestratorError):
    """The orchestrator does not know this user, or forbids what was asked."""


class OrchestratorUnavailableError(OrchestratorError):
    """The orchestrator did not answer; trying later may help."""

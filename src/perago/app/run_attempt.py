"""The life cycle of one attempt, from its input to its report, as short named phases.

Invariants: whatever goes wrong becomes one outcome, and only `Completed` carries an output; the
report comes before cleanup; cleanup never changes an outcome that is decided.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from perago.app.attempt_policy import AttemptPolicy
from perago.app.attempt_ports import AttemptPorts
from perago.app.checkout import Checkout, LocalChanges, check_out
from perago.app.fence import AttemptFence
from perago.app.full_disk import explain_full_disk
from perago.app.leftovers import Leftovers
from perago.app.phases import PhaseRecorder
from perago.app.publish import Publisher, StagedChanges
from perago.app.report import report_outcome
from perago.authoring import AnyTask, TaskContext, TaskInput, WorkspaceKind, WorkspaceSpec
from perago.domain.budget import merge_timeout_of
from perago.domain.changes import ChangeCount
from perago.domain.errors import (
    AlreadyExistsInStoreError,
    GuardrailViolationError,
    PeragoError,
    TaskFailed,
)
from perago.domain.guardrail import Guardrail
from perago.domain.ids import CommitId, ExecutionId
from perago.domain.outcome import (
    Completed,
    JsonObject,
    Outcome,
    Phase,
    build_output,
    decide_failure,
    describe_error,
)
from perago.domain.staging import build_staging_name
from perago.domain.workflow import PolledTask
from perago.domain.workspace import WorkspaceRef
from perago.ports import (
    AttemptObserver,
    Failpoint,
    Lease,
    SparkLease,
    SparkWorkspace,
)

_log = logging.getLogger(__name__)

_OUTPUT_RESERVE_BYTES = 2048
"""What the `workspace` part of an output may take of the orchestrator's size limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How an attempt ended, and whether the orchestrator was told; if not, the caller does it.

    `changes` is None where it did not come to comparing files.
    """

    outcome: Outcome
    is_reported: bool
    cost: str = ""
    """Its phases and what it moved, in a line for people."""
    changes: ChangeCount | None = None


class AttemptRun:
    """One execution of one attempt."""

    def __init__(
        self,
        task: AnyTask,
        polled: PolledTask,
        execution_id: ExecutionId,
        *,
        ports: AttemptPorts,
        lease: Lease,
        observer: AttemptObserver,
        policy: AttemptPolicy | None = None,
    ) -> None:
        self._task = task
        self._attempt = polled.attempt
        self._raw_input = polled.input
        self._execution_id = execution_id
        self._ports = ports
        self._lease = lease
        self._observer = observer
        self._policy = policy or AttemptPolicy()
        self._phases = PhaseRecorder(ports.clock, observer)
        self._fence = AttemptFence(
            attempt=polled.attempt,
            orchestrator=ports.orchestrator,
            lease=lease,
            clock=ports.clock,
            merge_timeout_seconds=merge_timeout_of(task.controls.publish_budget),
        )
        self._leftovers = Leftovers()
        self._changes: ChangeCount | None = None

    def run(self) -> AttemptEnd:
        """Run the attempt to its report and clean up."""
        outcome, is_reported = self._decide_outcome(), False
        # One that had no workspace is over now: whoever runs it can report it beside the next one.
        if not (self._policy.leave_report_to_caller and self._leftovers.is_empty):
            is_reported = self._report(outcome)
            self._clean_up(outcome)
        return AttemptEnd(
            outcome=outcome,
            is_reported=is_reported,
            cost=self._phases.summary(),
            changes=self._changes,
        )

    # -- deciding

    def _decide_outcome(self) -> Outcome:
        try:
            return Completed(output=self._execute())
        # Whatever went wrong, this attempt failed: the one place where catching everything is the
        # point. It is logged with its traceback, and reported.
        except Exception as error:  # noqa: BLE001
            explained, phase = explain_full_disk(error), self._phases.current
            if isinstance(explained, PeragoError) and phase is not Phase.BODY:
                # Our own errors say what to do; of a body, people want to see where it was.
                _log.warning("attempt failed in phase %s: %s", phase, explained)
                _log.debug("attempt failed here", exc_info=error)
            else:
                _log.error("attempt failed in phase %s", phase, exc_info=error)
            return decide_failure(explained, phase)

    def _execute(self) -> JsonObject:
        with self._phases.phase(Phase.VALIDATE):
            task_input = self._task.parse_input(self._raw_input)
        self._hit(Failpoint.VALIDATED)
        if self._task.workspace is None or task_input.workspace is None:
            result = self._run_body(task_input, None)
            return build_output(None, result, None)
        checkout = self._check_out(self._task.workspace, task_input.workspace)
        with self._phases.phase(Phase.PRE_CHECK):
            self._check(checkout.spec.pre, checkout.directory.files, before_body=True)
        self._hit(Failpoint.PRE_CHECKED)
        result = self._run_body(task_input, checkout)
        with self._phases.phase(Phase.POST_CHECK):
            self._check(checkout.spec.post, checkout.directory.files, before_body=False)
        self._hit(Failpoint.POST_CHECKED)
        ref = checkout.ref.ref if checkout.spec.read_only else self._publish(checkout)
        return build_output(checkout.ref, result, ref)

    # -- the workspace on this machine

    def _check_out(self, spec: WorkspaceSpec, ref: WorkspaceRef) -> Checkout:
        with self._phases.phase(Phase.PREPARE):
            directory = self._ports.directories.create(self._attempt, self._execution_id)
            self._leftovers.directory = directory
        self._hit(Failpoint.PREPARED)
        with self._phases.phase(Phase.DOWNLOAD):
            checkout = check_out(
                spec,
                ref,
                directory,
                store=self._ports.store,
                copies=2 if self._needs_input_copy else 1,
                on_transfer=self._phases.count_transfer,
            )
        self._hit(Failpoint.DOWNLOADED)
        return checkout

    @property
    def _needs_input_copy(self) -> bool:
        """Whether the body must see the input ref beside what it writes."""
        spec = self._task.workspace
        is_spark = self._task.body.workspace_kind is WorkspaceKind.SPARK
        return is_spark and spec is not None and not spec.read_only

    def _check(self, guardrails: Sequence[Guardrail], files: Path, *, before_body: bool) -> None:
        violations = self._ports.guardrails.violations(guardrails, files)
        if violations:
            raise GuardrailViolationError(violations, before_body=before_body)

    # -- the body

    def _run_body(self, task_input: TaskInput, checkout: Checkout | None) -> JsonObject:
        with self._phases.phase(Phase.BODY), ExitStack() as stack:
            lease = (
                stack.enter_context(self._ports.spark.lease(self._attempt, self._execution_id))
                if self._task.needs_spark
                else None
            )
            workspace: Path | SparkWorkspace | None = None
            if checkout is not None:
                files = checkout.directory.files
                workspace = files
                if lease is not None and self._task.body.workspace_kind is WorkspaceKind.SPARK:
                    before = checkout.directory.copy_input() if self._needs_input_copy else files
                    workspace = lease.workspace(before, files)
            with self._ports.isolation.around_body():
                raw = self._invoke(task_input, workspace, lease)
            # Checked before anything is staged: what cannot be reported must not be published.
            limit = self._ports.orchestrator.max_output_bytes - _OUTPUT_RESERVE_BYTES
            result = self._task.dump_result(raw, limit)
        self._hit(Failpoint.BODY_DONE)
        return result

    def _invoke(
        self,
        task_input: TaskInput,
        workspace: Path | SparkWorkspace | None,
        lease: SparkLease | None,
    ) -> object:
        try:
            return self._task.invoke(
                workspace=workspace,
                params=task_input.params,
                spark=lease.session if lease is not None else None,
                context=self._context(task_input),
            )
        except Exception:
            raise
        except BaseException as error:
            # `sys.exit()`, a cancelled coroutine and the like end the body, never the executor.
            raise TaskFailed(f"the body raised {describe_error(error)}") from error

    def _context(self, task_input: TaskInput) -> TaskContext:
        return TaskContext(
            attempt=self._attempt,
            execution_id=self._execution_id,
            workspace=task_input.workspace,
            logger=logging.getLogger(f"perago.task.{self._task.name}"),
            on_progress=self._observer.progressed,
            is_cancelled=lambda: self._lease.is_lost,
        )

    # -- publication

    def _publish(self, checkout: Checkout) -> CommitId:
        """The writable paths: no-op or publication; returns the output ref."""
        with self._phases.phase(Phase.DIFF):
            changes = checkout.find_changes()
            self._changes = ChangeCount(written=len(changes.writes), deleted=len(changes.deletes))
        self._hit(Failpoint.DIFFED)
        publisher = Publisher(
            store=self._ports.store,
            fence=self._fence,
            failpoints=self._ports.failpoints,
            attempt=self._attempt,
            execution_id=self._execution_id,
            workspace=checkout.ref,
            replace_unlabelled=self._policy.replace_unlabelled,
        )
        staged: StagedChanges | None = None
        with self._phases.phase(Phase.STAGE):
            self._fence.assert_current()
            self._hit(Failpoint.FENCED_BEFORE_STAGE)
            if not changes.is_empty:
                staged = self._stage(publisher, checkout.ref, changes)
                self._hit(Failpoint.STAGED)
        with self._phases.phase(Phase.PUBLISH):
            if staged is not None:
                self._fence.assert_current()
                self._hit(Failpoint.FENCED_BEFORE_PUBLISH)
            return publisher.confirm(staged)

    def _stage(
        self, publisher: Publisher, ref: WorkspaceRef, changes: LocalChanges
    ) -> StagedChanges:
        branch = build_staging_name(self._attempt, self._execution_id)
        self._leftovers.staging = (ref.repository, branch)
        try:
            self._ports.store.create_branch(ref.repository, branch, ref.ref, hidden=True)
        except AlreadyExistsInStoreError:
            self._leftovers.staging = None  # not ours: never write to it, never delete it
            raise
        return publisher.stage(
            branch,
            writes=changes.writes,
            deletes=changes.deletes,
            on_transfer=self._phases.count_transfer,
        )

    # -- afterwards

    def _report(self, outcome: Outcome) -> bool:
        """Tell the orchestrator; say whether it heard."""
        with self._phases.phase(Phase.REPORT):
            return report_outcome(
                self._attempt,
                outcome,
                orchestrator=self._ports.orchestrator,
                clock=self._ports.clock,
            )

    def _clean_up(self, outcome: Outcome) -> None:
        with self._phases.phase(Phase.CLEANUP):
            keep = self._policy.keep_failed_staging and not isinstance(outcome, Completed)
            self._leftovers.remove(self._ports.store, keep_staging=keep, hit=self._hit)

    def _hit(self, point: Failpoint) -> None:
        self._ports.failpoints.hit(point, self._attempt)

"""The life cycle of one attempt, from its input to its report.

Invariants: whatever goes wrong becomes one outcome, and only `Completed` carries an output; the
report comes before cleanup; cleanup never changes an outcome that is decided.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from perago.app.attempt_policy import AttemptPolicy
from perago.app.attempt_ports import AttemptPorts
from perago.app.attempt_scope import AttemptScope
from perago.app.direct_workspace import DirectWorkspaceFlow
from perago.app.exhausted import explain_exhausted
from perago.app.fence import AttemptFence
from perago.app.local_workspace import LocalWorkspaceFlow
from perago.app.phases import PhaseRecorder
from perago.app.report import OrchestratorReporter
from perago.app.spark_sampler import SparkSampler
from perago.app.workspace_flow import WorkspaceFlow
from perago.authoring import AnyTask, TaskContext, TaskInput, WorkspaceKind, WorkspaceSpec
from perago.domain.access import Access, decide_access
from perago.domain.budget import merge_timeout_of
from perago.domain.changes import ChangeCount
from perago.domain.errors import PeragoError, TaskFailed
from perago.domain.ids import ExecutionId
from perago.domain.outcome import (
    Completed,
    JsonObject,
    Outcome,
    Phase,
    build_output,
    decide_failure,
    describe_error,
)
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
        self._raw_input = polled.input
        self._reporter = ports.reporter or OrchestratorReporter(polled.attempt, ports.orchestrator)
        self._lease = lease
        self._body_is_over = False
        self._observer = observer
        self._scope = AttemptScope(
            task=task,
            attempt=polled.attempt,
            execution_id=execution_id,
            ports=ports,
            policy=policy or AttemptPolicy(),
            fence=AttemptFence(
                attempt=polled.attempt,
                orchestrator=ports.orchestrator,
                lease=lease,
                clock=ports.clock,
                merge_timeout_seconds=merge_timeout_of(task.controls.publish_budget),
            ),
            phases=PhaseRecorder(ports.clock, observer),
        )

    def run(self) -> AttemptEnd:
        """Run the attempt to its report and clean up."""
        scope = self._scope
        outcome, is_reported = self._decide_outcome(), False
        # One that had no workspace is over now: whoever runs it can report it beside the next one.
        if not (scope.policy.leave_report_to_caller and scope.leftovers.is_empty):
            is_reported = self._report(outcome)
            self._clean_up(outcome)
        return AttemptEnd(
            outcome=outcome,
            is_reported=is_reported,
            cost=scope.phases.summary(),
            changes=scope.changes,
        )

    # -- deciding

    def _decide_outcome(self) -> Outcome:
        try:
            return Completed(output=self._execute())
        # Whatever went wrong, this attempt failed: the one place where catching everything is the
        # point. It is logged with its traceback, and reported.
        except Exception as error:  # noqa: BLE001
            explained, phase = explain_exhausted(error), self._scope.phases.current
            if isinstance(explained, PeragoError) and phase is not Phase.BODY:
                # Our own errors say what to do; of a body, people want to see where it was.
                _log.warning("attempt failed in phase %s: %s", phase, explained)
                _log.debug("attempt failed here", exc_info=error)
            else:
                _log.error("attempt failed in phase %s", phase, exc_info=error)
            return decide_failure(explained, phase)

    def _execute(self) -> JsonObject:
        scope = self._scope
        with scope.phases.phase(Phase.VALIDATE):
            task_input = scope.task.parse_input(self._raw_input)
        scope.hit(Failpoint.VALIDATED)
        spec, ref = scope.task.workspace, task_input.workspace
        if spec is None or ref is None:
            return build_output(None, self._run_body(task_input, None), None)
        flow = self._choose_flow(spec, ref)
        with flow.opened():
            result = self._run_body(task_input, flow)
            return build_output(ref, result, flow.finish())

    def _choose_flow(self, spec: WorkspaceSpec, ref: WorkspaceRef) -> WorkspaceFlow:
        store = self._scope.ports.direct_store
        access = decide_access(
            spec.access,
            self._scope.policy.access,
            is_spark=self._scope.task.body.workspace_kind is WorkspaceKind.SPARK,
            store_is_reachable=store is not None,
        )
        if access is Access.DIRECT and store is not None:
            return DirectWorkspaceFlow(self._scope, spec, ref, store)
        return LocalWorkspaceFlow(self._scope, spec, ref)

    # -- the body

    def _run_body(self, task_input: TaskInput, flow: WorkspaceFlow | None) -> JsonObject:
        scope = self._scope
        with scope.phases.phase(Phase.BODY), ExitStack() as stack:
            spark = flow.spark if flow is not None else None
            if spark is None and scope.task.needs_spark:
                lease = scope.ports.spark.lease(scope.attempt, scope.execution_id)
                spark = stack.enter_context(lease)
            workspace = flow.for_body(spark) if flow is not None else None
            # The sampler outside: what it says last is said where the runtime logs, whatever the
            # body did to the process.
            sampler = SparkSampler(spark, self._observer, scope.ports.clock)
            try:
                with sampler, scope.ports.isolation.around_body():
                    raw = self._invoke(task_input, workspace, spark)
            finally:
                self._body_is_over = True
            if flow is not None:
                flow.settle(spark)
            # Checked before anything is staged: what cannot be reported must not be published.
            limit = scope.ports.orchestrator.max_output_bytes - _OUTPUT_RESERVE_BYTES
            result = scope.task.dump_result(raw, limit)
        scope.hit(Failpoint.BODY_DONE)
        return result

    def _invoke(
        self,
        task_input: TaskInput,
        workspace: Path | SparkWorkspace | None,
        spark: SparkLease | None,
    ) -> object:
        try:
            return self._scope.task.invoke(
                workspace=workspace,
                params=task_input.params,
                spark=spark.session if spark is not None else None,
                context=self._context(task_input),
            )
        except Exception as error:
            if isinstance(error, PeragoError) or spark is None or spark.is_usable:
                raise
            # All that its author would read otherwise is that some connection was refused.
            raise TaskFailed(
                f"Spark was stopped or died under the body: {describe_error(error)}",
                hint="the executor's log has Spark's own last words; one that was killed may have "
                "run out of memory (spark_memory_mb); a body never calls spark.stop()",
            ) from error
        except BaseException as error:
            # `sys.exit()`, a cancelled coroutine and the like end the body, never the executor.
            raise TaskFailed(f"the body raised {describe_error(error)}") from error

    def _context(self, task_input: TaskInput) -> TaskContext:
        scope = self._scope
        return TaskContext(
            attempt=scope.attempt,
            execution_id=scope.execution_id,
            workspace=task_input.workspace,
            logger=logging.getLogger(f"perago.task.{scope.task.name}"),
            on_progress=self._tell_progress,
            is_cancelled=lambda: self._lease.is_lost,
        )

    def _tell_progress(self, message: str, fraction: float | None) -> None:
        # A thread that the body left behind may speak while the next attempt runs.
        if not self._body_is_over:
            self._observer.progressed(message, fraction)

    # -- afterwards

    def _report(self, outcome: Outcome) -> bool:
        """Report; say whether the orchestrator took it."""
        scope = self._scope
        with scope.phases.phase(Phase.REPORT):
            return self._reporter.report(outcome, scope.changes)

    def _clean_up(self, outcome: Outcome) -> None:
        scope = self._scope
        with scope.phases.phase(Phase.CLEANUP):
            keep = scope.policy.keep_failed_staging and not isinstance(outcome, Completed)
            scope.leftovers.remove(scope.ports.store, keep_staging=keep, hit=scope.hit)

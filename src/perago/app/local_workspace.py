"""A workspace in a directory of this machine: checked out, compared, and sent back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from perago.app.attempt_scope import AttemptScope, refuse_violations
from perago.app.checkout import Checkout, LocalChanges, check_out
from perago.app.publish import Publisher, StagedChanges
from perago.authoring import WorkspaceKind, WorkspaceSpec
from perago.authoring.guardrails import takes_spark_workspace
from perago.domain.changes import ChangeCount
from perago.domain.guardrail import Guardrail
from perago.domain.ids import CommitId
from perago.domain.outcome import Phase
from perago.domain.workspace import WorkspaceRef
from perago.ports import Failpoint, SparkLease, SparkWorkspace


class LocalWorkspaceFlow:
    """A `WorkspaceFlow` whose body works on files beside it."""

    def __init__(self, scope: AttemptScope, spec: WorkspaceSpec, ref: WorkspaceRef) -> None:
        self._scope = scope
        self._spec = spec
        self._ref = ref
        self._checkout: Checkout | None = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        scope = self._scope
        self._checkout = self._check_out()
        with scope.phases.phase(Phase.PRE_CHECK):
            refuse_violations(self._violations(self._spec.pre), before_body=True)
        scope.hit(Failpoint.PRE_CHECKED)
        yield

    @property
    def spark(self) -> SparkLease | None:
        """None: only the body needs it."""
        return None

    def for_body(self, spark: SparkLease | None) -> Path | SparkWorkspace:
        directory = self._opened.directory
        if spark is None or not self._is_spark:
            return directory.files
        before = directory.copy_input() if self._needs_input_copy else directory.files
        return spark.workspace(before, directory.files)

    def settle(self, spark: SparkLease | None) -> None:
        if spark is not None and not self._spec.read_only:
            spark.settle()

    def finish(self) -> CommitId:
        scope = self._scope
        with scope.phases.phase(Phase.POST_CHECK):
            refuse_violations(self._violations(self._spec.post), before_body=False)
        scope.hit(Failpoint.POST_CHECKED)
        return self._ref.ref if self._spec.read_only else self._publish()

    def _violations(self, guardrails: Sequence[Guardrail]) -> list[str]:
        scope, files = self._scope, self._opened.directory.files
        # For a task on a Path, Spark is not started for a check: it is told what it would get.
        on_spark = [one for one in guardrails if self._is_spark and takes_spark_workspace(one)]
        on_files = [one for one in guardrails if one not in on_spark]
        found = scope.ports.guardrails.violations(on_files, files)
        if on_spark:
            # A lease of their own: what a body did to its session changes nothing for them.
            with scope.ports.spark.lease(scope.attempt, scope.execution_id) as lease:
                view = lease.workspace(files, files)
                found += scope.ports.spark_guardrails.violations(on_spark, view)
        return found

    def _check_out(self) -> Checkout:
        scope = self._scope
        with scope.phases.phase(Phase.PREPARE):
            directory = scope.ports.directories.create(scope.attempt, scope.execution_id)
            scope.leftovers.directory = directory
        scope.hit(Failpoint.PREPARED)
        with scope.phases.phase(Phase.DOWNLOAD):
            checkout = check_out(
                self._spec,
                self._ref,
                directory,
                store=scope.ports.store,
                copies=2 if self._needs_input_copy else 1,
                on_transfer=scope.phases.count_transfer,
            )
        scope.hit(Failpoint.DOWNLOADED)
        return checkout

    @property
    def _needs_input_copy(self) -> bool:
        """Whether the body must see the input ref beside what it writes."""
        return self._is_spark and not self._spec.read_only

    @property
    def _is_spark(self) -> bool:
        return self._scope.task.body.workspace_kind is WorkspaceKind.SPARK

    @property
    def _opened(self) -> Checkout:
        assert self._checkout is not None, "the workspace is not open"
        return self._checkout

    def _publish(self) -> CommitId:
        """The writable paths: no-op or publication; returns the output ref."""
        scope = self._scope
        with scope.phases.phase(Phase.DIFF):
            changes = self._opened.find_changes()
            scope.changes = ChangeCount(written=len(changes.writes), deleted=len(changes.deletes))
        scope.hit(Failpoint.DIFFED)
        publisher = scope.publisher(self._ref)
        staged: StagedChanges | None = None
        with scope.phases.phase(Phase.STAGE):
            scope.fence.assert_current()
            scope.hit(Failpoint.FENCED_BEFORE_STAGE)
            if not changes.is_empty:
                staged = self._stage(publisher, changes)
                scope.hit(Failpoint.STAGED)
        with scope.phases.phase(Phase.PUBLISH):
            if staged is not None:
                scope.fence.assert_current()
                scope.hit(Failpoint.FENCED_BEFORE_PUBLISH)
            return publisher.confirm(staged)

    def _stage(self, publisher: Publisher, changes: LocalChanges) -> StagedChanges:
        return publisher.stage(
            self._scope.create_staging(self._ref),
            writes=changes.writes,
            deletes=changes.deletes,
            on_transfer=self._scope.phases.count_transfer,
        )

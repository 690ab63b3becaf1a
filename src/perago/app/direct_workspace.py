"""A workspace that Spark reads at the input ref and writes on the staging branch by itself.

Try begins early here: the branch is there before the body, since the body writes to it (ADR 0011).
Invariant: nothing is committed before all Spark jobs of the attempt have ended and every change was
judged, and what is published is a commit that was compared with the input ref once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from perago.app.attempt_scope import AttemptScope, refuse_violations
from perago.app.publish import StagedChanges
from perago.authoring import WorkspaceSpec
from perago.domain.errors import StagingChangedError, UnpublishableFileError
from perago.domain.guardrail import Guardrail
from perago.domain.ids import BranchName, CommitId
from perago.domain.outcome import Phase
from perago.domain.staged_changes import JudgedChanges, judge_changes
from perago.domain.workspace import WorkspaceRef
from perago.ports import DirectPlace, DirectStore, Failpoint, SparkLease, SparkWorkspace


class DirectWorkspaceFlow:
    """A `WorkspaceFlow` whose body works on the store itself, through Spark."""

    def __init__(
        self, scope: AttemptScope, spec: WorkspaceSpec, ref: WorkspaceRef, store: DirectStore
    ) -> None:
        self._scope = scope
        self._spec = spec
        self._ref = ref
        self._store = store
        self._spark_use = ExitStack()
        self._spark: SparkLease | None = None
        self._staging: BranchName | None = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        scope = self._scope
        with self._spark_use:
            with scope.phases.phase(Phase.PREPARE):
                # Nothing of the workspace goes there. By its marker the next start of a worker
                # that was killed tells who died, instead of waiting for the end of a lease.
                scope.leftovers.directory = scope.ports.directories.create(
                    scope.attempt, scope.execution_id
                )
                self._spark = self._spark_use.enter_context(self._lease_spark())
            scope.hit(Failpoint.PREPARED)
            with scope.phases.phase(Phase.PRE_CHECK):
                self._check(self._spec.pre, self._ref.ref, self.spark, before_body=True)
            scope.hit(Failpoint.PRE_CHECKED)
            if not self._spec.read_only:
                with scope.phases.phase(Phase.PREPARE):
                    scope.fence.assert_current()
                    scope.hit(Failpoint.FENCED_BEFORE_STAGE)
                    self._staging = scope.create_staging(self._ref)
            yield

    @property
    def spark(self) -> SparkLease:
        """Spark, which the pre guardrails need as well as the body."""
        assert self._spark is not None, "the workspace is not open, or the body is over"
        return self._spark

    def for_body(self, spark: SparkLease | None) -> SparkWorkspace:
        assert spark is not None
        return self._view(spark, self._ref.ref, self._staging)

    def settle(self, spark: SparkLease | None) -> None:
        assert spark is not None
        if self._staging is not None:
            # A straggler's write would come after the judgement, or be judged in part.
            spark.settle()
        # Given back as clean as it was got.
        self._spark = None
        self._spark_use.close()

    def finish(self) -> CommitId:
        if self._staging is None:
            self._pass_post_check(self._ref.ref)
            return self._ref.ref
        return self._publish(self._staging)

    def _publish(self, staging: BranchName) -> CommitId:
        scope = self._scope
        with scope.phases.phase(Phase.DIFF):
            judged = self._judge_staging(staging)
            scope.changes = judged.kept
        scope.hit(Failpoint.DIFFED)
        publisher = scope.publisher(self._ref)
        staged: StagedChanges | None = None
        if not judged.is_empty:
            with scope.phases.phase(Phase.STAGE):
                staged = publisher.stage_written(staging, self._store)
                self._judge_commit(staged.commit.id, judged)
            scope.hit(Failpoint.STAGED)
        self._pass_post_check(staged.commit.id if staged is not None else self._ref.ref)
        with scope.phases.phase(Phase.PUBLISH):
            scope.fence.assert_current()
            scope.hit(Failpoint.FENCED_BEFORE_PUBLISH)
            return publisher.confirm(staged)

    def _judge_staging(self, staging: BranchName) -> JudgedChanges:
        """Judge what the body left on the branch, once nobody writes to it any more."""
        head = self._store.head(self._ref.repository, staging).id
        if head != self._ref.ref:
            # What was committed already would look like no change at all.
            raise StagingChangedError(
                f"somebody committed to the staging branch by themselves: it stands at {head}",
                hint="a body writes below workspace.uri_out(), and leaves the commit to the "
                "runtime; keep other writers away from staging branches",
            )
        changes = self._store.staged_changes(self._ref.repository, staging)
        judged = judge_changes(changes, self._spec.prefix)
        if judged.strays:
            self._store.remove_staged(self._ref.repository, staging, judged.strays)
        self._refuse_dirty_target()
        return judged

    def _refuse_dirty_target(self) -> None:
        """See that nothing lies on the target by itself: the key of a body would let it."""
        # No merge could be made into it, but a body that wrote nothing else would pass unseen.
        target = self._ref.branch
        change = next(self._store.staged_changes(self._ref.repository, target), None)
        if change is not None:
            raise UnpublishableFileError(
                f"the branch {target!r} itself has uncommitted changes, such as {change.path!r}",
                path=change.path,
                hint="a body writes below workspace.uri_out(), never to the branch that it is "
                "published to; see who wrote that, and reset or commit it by hand: until then "
                "nothing can be published there",
            )

    def _judge_commit(self, commit: CommitId, judged: JudgedChanges) -> None:
        """See that the commit holds what was judged, and nothing that came in between."""
        changes = self._store.changes_between(self._ref.repository, self._ref.ref, commit)
        committed = judge_changes(changes, self._spec.prefix)
        if committed.strays or committed.fingerprint != judged.fingerprint:
            raise StagingChangedError(
                f"somebody wrote to the staging branch while it was committed as {commit}",
                hint="keep other writers away from staging branches, and have the body wait for "
                "all that it started",
            )

    def _pass_post_check(self, commit: CommitId) -> None:
        """Pass the post guardrails on what would be published."""
        with self._scope.phases.phase(Phase.POST_CHECK):
            if self._spec.post:
                # A lease of their own: what a body did to its session changes nothing for them.
                with self._lease_spark() as spark:
                    self._check(self._spec.post, commit, spark, before_body=False)
        self._scope.hit(Failpoint.POST_CHECKED)

    def _check(
        self,
        guardrails: Sequence[Guardrail],
        at: CommitId,
        spark: SparkLease,
        *,
        before_body: bool,
    ) -> None:
        if guardrails:
            view = self._view(spark, at, None)
            found = self._scope.ports.spark_guardrails.violations(guardrails, view)
            refuse_violations(found, before_body=before_body)

    def _view(self, spark: SparkLease, at: CommitId, staging: BranchName | None) -> SparkWorkspace:
        place = DirectPlace(
            repository=self._ref.repository,
            ref=at,
            prefix=self._spec.prefix,
            staging=staging,
        )
        return spark.direct_workspace(place, self._store)

    def _lease_spark(self) -> AbstractContextManager[SparkLease]:
        scope = self._scope
        return scope.ports.spark.lease(scope.attempt, scope.execution_id, direct=True)

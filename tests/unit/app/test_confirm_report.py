"""No COMPLETED without its commit: what an executor says is compared with what the store has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.app.confirm_report import explain_unconfirmed
from perago.domain.attempt import Attempt
from perago.domain.errors import StoreUnavailableError
from perago.domain.ids import (
    BranchName,
    CommitId,
    ExecutionId,
    ObjectPath,
    RepositoryName,
    TaskId,
    WorkflowId,
)
from perago.domain.outcome import Completed, JsonValue, build_output
from perago.domain.publication import (
    Commit,
    PublicationPhase,
    StagedWorkspace,
    build_publication_metadata,
)
from perago.domain.workspace import WorkspaceRef
from perago.testing import FakeClock, MemoryWorkspaceStore
from perago.testing.store_contract import StoreBench

MAIN = BranchName("main")
EXECUTION, OTHER_EXECUTION = ExecutionId("1" * 32), ExecutionId("2" * 32)
ATTEMPT = Attempt(
    workflow_id=WorkflowId("run"),
    task_id=TaskId("task"),
    task_name="write",
    reference_name="write",
)


class CountingStore(MemoryWorkspaceStore):
    """Counts the commits that are asked for; fails when it is told to."""

    reads = 0
    is_away = False

    def read_commit(self, repository: RepositoryName, commit: CommitId) -> Commit:
        self.reads += 1
        if self.is_away:
            raise StoreUnavailableError("it does not answer")
        return super().read_commit(repository, commit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A repository, and an attempt that published to it."""

    bench: StoreBench
    workspace: WorkspaceRef
    published: CommitId
    staged: CommitId

    def explain(
        self,
        outcome: Completed,
        *,
        attempt: Attempt = ATTEMPT,
        execution_id: ExecutionId = EXECUTION,
    ) -> str | None:
        return explain_unconfirmed(
            attempt, execution_id, self.workspace, outcome, store=self.bench.store
        )

    def names(self, ref: str) -> Completed:
        return Completed(output=build_output(self.workspace, {}, CommitId(ref)))

    def says(self, field: str, value: JsonValue) -> Completed:
        output = build_output(self.workspace, {}, self.published)
        named = output["workspace"]
        assert isinstance(named, dict)
        named[field] = value
        return Completed(output=output)


@pytest.fixture(params=["memory", "embedded"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        store = (
            CountingStore(FakeClock())
            if request.param == "memory"
            else stack.enter_context(EmbeddedWorkspaceStore(tmp_path / "home", FakeClock()))
        )
        yield open_site(StoreBench(store=store, second=store, directory=tmp_path))


def open_site(bench: StoreBench) -> Site:
    repository = bench.repository({"a": b"1"})
    input_ref = bench.head(repository)
    branch = BranchName("staging")
    bench.store.create_branch(repository, branch, input_ref, hidden=True)

    def metadata(phase: PublicationPhase) -> dict[str, str]:
        return build_publication_metadata(
            phase=phase,
            attempt=ATTEMPT,
            execution_id=EXECUTION,
            input_ref=input_ref,
            staging_branch=branch,
        )

    staged = bench.store.commit_changes(
        repository,
        branch,
        writes={ObjectPath("a"): bench.file(b"2")},
        deletes=[],
        message="stage",
        metadata=metadata(PublicationPhase.TRY),
        on_transfer=lambda _objects, _size: None,
    )
    published = bench.merge(
        StagedWorkspace(repository=repository, branch=branch, commit=staged.id),
        expected_head=input_ref,
        metadata=metadata(PublicationPhase.CONFIRM),
    )
    return Site(
        bench=bench,
        workspace=WorkspaceRef(repository=repository, branch=MAIN, ref=input_ref),
        published=published.id,
        staged=staged.id,
    )


def test_what_this_execution_published_may_be_reported(site: Site) -> None:
    assert site.explain(site.names(site.published)) is None
    assert site.explain(site.names(site.staged)) is None, "a replacement publishes the staging"


def test_an_unchanged_workspace_may_be_reported_without_a_look(site: Site) -> None:
    outcome = site.names(site.workspace.ref)
    assert site.explain(outcome) is None
    if isinstance(site.bench.store, CountingStore):
        assert site.bench.store.reads == 0


def test_one_look_is_enough(site: Site) -> None:
    site.explain(site.names(site.published))
    if isinstance(site.bench.store, CountingStore):
        assert site.bench.store.reads == 1


@pytest.mark.parametrize(
    "ref", ["f" * 64, "main", "../main", "\ud800", "a\0", "", "a" * 5000, "staging"]
)
def test_a_commit_that_is_not_there_is_not_reported(site: Site, ref: str) -> None:
    assert "no commit" in (site.explain(site.names(ref)) or "")


def test_a_commit_of_another_execution_attempt_or_task_is_not_reported(site: Site) -> None:
    outcome = site.names(site.published)
    for attempt, execution_id in (
        (ATTEMPT, OTHER_EXECUTION),
        (replace(ATTEMPT, task_id=TaskId("retry")), EXECUTION),
        (replace(ATTEMPT, reference_name="other"), EXECUTION),
        (replace(ATTEMPT, workflow_id=WorkflowId("other")), EXECUTION),
        (replace(ATTEMPT, iteration=1), EXECUTION),
    ):
        reason = site.explain(outcome, attempt=attempt, execution_id=execution_id)
        assert reason is not None
        assert "is not of execution" in reason


def test_a_commit_that_stands_elsewhere_or_says_nothing_is_not_reported(site: Site) -> None:
    repository = site.workspace.repository
    beyond = site.bench.commit(repository, MAIN, {"a": b"3"})
    assert "does not stand on the input ref" in (site.explain(site.names(beyond.id)) or "")
    site.bench.relocate(repository, to=site.workspace.ref, expected_head=beyond.id)
    unlabelled = site.bench.commit(repository, MAIN, {"a": b"4"})
    assert "is not of execution" in (site.explain(site.names(unlabelled.id)) or "")


def test_a_commit_of_another_repository_is_not_reported(site: Site) -> None:
    elsewhere = site.bench.repository({"b": b"1"})
    foreign = site.bench.commit(elsewhere, MAIN, {"b": b"2"})
    assert "no commit" in (site.explain(site.names(foreign.id)) or "")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("repository", "another"),
        ("branch", "another"),
        ("branch", None),
        ("ref_type", "branch"),
        ("ref", None),
        ("ref", 7),
        ("ref", ["a"]),
    ],
)
def test_a_workspace_that_is_not_the_inputs_is_not_reported(
    site: Site, field: str, value: JsonValue
) -> None:
    assert site.explain(site.says(field, value)) is not None


@pytest.mark.parametrize("named", [None, "text", [], 1])
def test_an_output_without_a_workspace_is_not_reported(site: Site, named: JsonValue) -> None:
    assert site.explain(Completed(output={"workspace": named, "result": {}})) is not None


def test_a_task_without_a_workspace_names_none(site: Site) -> None:
    store = site.bench.store
    plain = Completed(output=build_output(None, {}, None))
    assert explain_unconfirmed(ATTEMPT, EXECUTION, None, plain, store=store) is None
    outcome = site.names(site.published)
    assert explain_unconfirmed(ATTEMPT, EXECUTION, None, outcome, store=store) is not None


def test_a_store_that_does_not_answer_says_nothing(tmp_path: Path) -> None:
    store = CountingStore(FakeClock())
    site = open_site(StoreBench(store=store, second=store, directory=tmp_path))
    store.is_away = True
    with pytest.raises(StoreUnavailableError):
        site.explain(site.names(site.published))

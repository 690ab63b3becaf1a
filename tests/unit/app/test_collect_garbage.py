"""Which stagings may go, and which commits somebody may still read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from perago import RetryPolicy, TaskControls, WorkspaceSpec, task
from perago.app.collect_garbage import (
    FoundStaging,
    StagingState,
    collect_stagings,
    find_inputs_in_flight,
    find_stagings,
    remove_stagings,
)
from perago.domain.attempt import Attempt, AttemptStatus
from perago.domain.errors import (
    NotFoundInOrchestratorError,
    OrchestratorError,
    StoreAccessError,
)
from perago.domain.ids import BranchName, RepositoryName, TaskId, WorkflowId
from perago.domain.json_limits import build_unreadable
from perago.domain.outcome import JsonObject
from perago.domain.staging import parse_staging_name
from perago.domain.workflow import TaskState, WorkflowState, WorkflowStatus
from perago.ports import Failpoint
from perago.testing import FakeClock, MemoryOrchestrator, MemoryWorkspaceStore, TaskEnvironment


class Params(BaseModel):
    """Nothing."""


class Result(BaseModel):
    """Nothing."""


@task(
    "write",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(prefix="/"),
    controls=TaskControls(retry=RetryPolicy(count=3, delay_seconds=0)),
)
def write(workspace: Path, params: Params) -> Result:
    (workspace / "f").write_text("x")
    return Result()


class Crash(BaseException):
    """The process is gone."""


def crash() -> None:
    raise Crash


@pytest.fixture
def env() -> Iterator[TaskEnvironment]:
    with TaskEnvironment() as environment:
        yield environment


def stagings(env: TaskEnvironment) -> list[BranchName]:
    branches = env.store.branches(env.repository, hidden=True)
    return [branch.name for branch in branches if branch.hidden]


def crash_after_staging(env: TaskEnvironment) -> None:
    with pytest.raises(Crash):
        env.run(write, Params(), at={Failpoint.STAGED: crash})


def test_a_staging_goes_when_the_orchestrator_says_that_its_attempt_is_over(
    env: TaskEnvironment,
) -> None:
    crash_after_staging(env)
    (left,) = stagings(env)
    assert parse_staging_name(left) is not None

    assert collect_stagings(env.store, env.orchestrator, env.repository) == [], "in progress"
    env.time_out()
    assert collect_stagings(env.store, env.orchestrator, env.repository) == [left]
    assert stagings(env) == []


def test_what_the_orchestrator_does_not_know_stays(env: TaskEnvironment) -> None:
    head = env.store.head(env.repository, env.branch).id
    strangers = f"perago-staging-w-r-seq-1-iteration-0-task-id-unknown-retry-0-exec-{'0' * 32}"
    for name in (strangers, "somebodys-branch"):
        env.store.create_branch(env.repository, BranchName(name), head, hidden=True)

    assert collect_stagings(env.store, env.orchestrator, env.repository) == []
    assert len(stagings(env)) == 2


def test_each_staging_is_found_with_what_the_orchestrator_says_of_it(env: TaskEnvironment) -> None:
    head = env.store.head(env.repository, env.branch).id
    stranger = BranchName(
        f"perago-staging-w-r-seq-1-iteration-0-task-id-unknown-retry-0-exec-{'0' * 32}"
    )
    env.store.create_branch(env.repository, stranger, head, hidden=True)
    crash_after_staging(env)
    before = {found.state for found in find_stagings(env.store, env.orchestrator, env.repository)}
    env.time_out()
    after = {found.state for found in find_stagings(env.store, env.orchestrator, env.repository)}

    assert before == {StagingState.UNKNOWN, StagingState.UNFINISHED}
    assert after == {StagingState.UNKNOWN, StagingState.OVER}
    assert len(stagings(env)) == 2, "looking removes nothing"


def test_a_staging_that_its_execution_removed_meanwhile_is_no_failure(
    env: TaskEnvironment,
) -> None:
    crash_after_staging(env)
    env.time_out()
    (found,) = find_stagings(env.store, env.orchestrator, env.repository)
    gone = FoundStaging(
        repository=env.repository, branch=BranchName("gone"), state=StagingState.OVER
    )

    assert remove_stagings(env.store, [gone, found]).removed == [found]
    assert stagings(env) == []


def test_what_an_unfinished_run_may_read_is_in_flight(env: TaskEnvironment) -> None:
    read = env.put({"a": "1"})
    env.schedule(write, Params())
    env.move_head()

    assert find_inputs_in_flight(env.orchestrator) == {read}


class Listing(MemoryOrchestrator):
    """Says what runs, and lists them as a server does whose pages move between two looks."""

    def __init__(self, runs: dict[str, list[JsonObject]], listings: list[list[str]]) -> None:
        super().__init__(FakeClock())
        self.runs = runs
        self.listings = listings

    def workflow_ids(
        self, *, limit: int, unfinished: bool = False, name: str | None = None
    ) -> list[WorkflowId]:
        assert unfinished
        assert name is None
        listed = self.listings.pop(0) if len(self.listings) > 1 else self.listings[0]
        return [WorkflowId(one) for one in listed[:limit]]

    def workflow(self, workflow_id: WorkflowId) -> WorkflowState:
        if workflow_id not in self.runs:
            raise NotFoundInOrchestratorError("it is gone")
        given, *tasks = self.runs[workflow_id]
        attempt = Attempt(
            workflow_id=workflow_id, task_id=TaskId("t"), task_name="t", reference_name="t"
        )
        return WorkflowState(
            id=workflow_id,
            name="w",
            version=1,
            status=WorkflowStatus.RUNNING,
            input=given,
            output={},
            tasks=tuple(
                TaskState(
                    attempt=attempt,
                    task_type="SIMPLE",
                    status=AttemptStatus.COMPLETED,
                    input={},
                    output=output,
                )
                for output in tasks
            ),
            started_at=FakeClock().now(),
        )


def space(ref: str) -> JsonObject:
    return {"repository": "lab", "branch": "main", "ref_type": "commit", "ref": ref}


def test_a_workspace_of_any_name_is_in_flight() -> None:
    given: JsonObject = {"workspace": space("a"), "reference_data": space("b")}
    nested: JsonObject = {"result": {"made": [space("c"), {"deeper": space("d")}]}}
    orchestrator = Listing({"w": [given, nested]}, [["w"]])
    assert find_inputs_in_flight(orchestrator) == {"a", "b", "c", "d"}


def test_no_run_is_left_out_however_many_there_are() -> None:
    many: dict[str, list[JsonObject]] = {
        str(number): [{"workspace": space(f"c{number}")}] for number in range(10_050)
    }
    assert len(find_inputs_in_flight(Listing(many, [list(many)]))) == 10_050


def test_a_run_that_a_moving_listing_passed_over_is_found() -> None:
    runs: dict[str, list[JsonObject]] = {one: [{"workspace": space(one)}] for one in "abc"}
    orchestrator = Listing(runs, [["a", "c"], ["a", "b", "c", "gone"]])
    assert find_inputs_in_flight(orchestrator) == {"a", "b", "c"}


def test_a_run_that_does_not_tell_its_commits_stops_the_collection() -> None:
    orchestrator = Listing({"w": [build_unreadable("it is stored elsewhere")]}, [["w"]])
    with pytest.raises(OrchestratorError, match="which commits run w uses: it is stored") as caught:
        find_inputs_in_flight(orchestrator)
    assert "perago cancel w" in (caught.value.hint or "")


def test_a_finished_run_keeps_nothing_in_flight(env: TaskEnvironment) -> None:
    env.run(write, Params())

    assert find_inputs_in_flight(env.orchestrator) == set()


def test_a_hidden_branch_of_no_attempt_is_shown_and_stays(env: TaskEnvironment) -> None:
    head = env.store.head(env.repository, env.branch).id
    imported = BranchName("perago-staging-import-" + "0" * 32)
    env.store.create_branch(env.repository, imported, head, hidden=True)
    env.store.create_branch(env.repository, BranchName("perago-staging-mine"), head)

    (found,) = find_stagings(env.store, env.orchestrator, env.repository)

    assert (found.branch, found.state) == (imported, StagingState.NO_ATTEMPT)
    assert remove_stagings(env.store, [found]).removed == []
    assert stagings(env) == [imported]


def test_one_that_cannot_be_removed_keeps_no_other(env: TaskEnvironment) -> None:
    class Stubborn(MemoryWorkspaceStore):
        def delete_branch(self, repository: RepositoryName, branch: BranchName) -> None:
            if branch == "stubborn":
                raise StoreAccessError("no permission")

    names = ("first", "stubborn", "last")
    found = [
        FoundStaging(repository=env.repository, branch=BranchName(name), state=StagingState.OVER)
        for name in names
    ]

    removal = remove_stagings(Stubborn(FakeClock()), found)

    assert [one.branch for one in removal.removed] == ["first", "last"]
    assert [(one.branch, error.message) for one, error in removal.failed] == [
        ("stubborn", "no permission")
    ]

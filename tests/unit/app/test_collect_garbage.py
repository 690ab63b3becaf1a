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
from perago.domain.errors import StoreAccessError
from perago.domain.ids import BranchName, RepositoryName
from perago.domain.staging import parse_staging_name
from perago.ports import Failpoint
from perago.testing import FakeClock, MemoryWorkspaceStore, TaskEnvironment


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

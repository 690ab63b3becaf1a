"""What an execution leaves behind, and when it may."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from perago import RetryPolicy, TaskControls, WorkspaceSpec, task
from perago.app.attempt_policy import AttemptPolicy
from perago.app.collect_garbage import collect_stagings
from perago.domain.attempt import AttemptStatus
from perago.domain.ids import BranchName
from perago.domain.workspace import ObjectEntry
from perago.ports import Failpoint
from perago.testing import TaskEnvironment


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


@pytest.fixture
def keeping() -> Iterator[TaskEnvironment]:
    with TaskEnvironment(policy=AttemptPolicy(keep_failed_staging=True)) as environment:
        yield environment


def overtaken(env: TaskEnvironment) -> dict[Failpoint, Callable[[], None]]:
    """The branch moves on by more than one commit: nothing can be published any more."""

    def move_on() -> None:
        env.move_head()
        env.move_head()

    return {Failpoint.STAGED: move_on}


def stagings(env: TaskEnvironment) -> list[BranchName]:
    branches = env.store.branches(env.repository, hidden=True)
    return [branch.name for branch in branches if branch.hidden]


def test_a_failed_attempt_leaves_its_staging_where_that_is_asked_for(
    keeping: TaskEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        run = keeping.run(write, Params(), at=overtaken(keeping))

    (kept,) = stagings(keeping)
    assert run.status is AttemptStatus.FAILED
    assert f"kept the staging branch {kept} of test" in caplog.text
    assert [entry.path for entry in staged_objects(keeping, kept)] == ["f"]
    assert keeping.leftovers == [], "the directory goes all the same"


def staged_objects(env: TaskEnvironment, branch: BranchName) -> list[ObjectEntry]:
    head = env.store.head(env.repository, branch)
    return list(env.store.list_objects(env.repository, head.id))


def test_a_kept_staging_is_collected_like_any_other(keeping: TaskEnvironment) -> None:
    keeping.run(write, Params(), at=overtaken(keeping))
    kept = stagings(keeping)

    assert len(kept) == 1
    assert collect_stagings(keeping.store, keeping.orchestrator, keeping.repository) == kept
    assert stagings(keeping) == []


def test_a_completed_attempt_leaves_none(keeping: TaskEnvironment) -> None:
    run = keeping.run(write, Params())

    assert run.published
    assert stagings(keeping) == []


def test_a_failed_attempt_leaves_none_unless_asked(caplog: pytest.LogCaptureFixture) -> None:
    with TaskEnvironment() as env:
        run = env.run(write, Params(), at=overtaken(env))

        assert run.status is AttemptStatus.FAILED
        assert stagings(env) == []
        assert "kept" not in caplog.text

"""Between the fence's answer and the act: what others commit there stays, and time may run out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from perago import RetryPolicy, TaskControls, WorkspaceSpec, task
from perago.domain.ids import CommitId
from perago.domain.outcome import Failed
from perago.domain.workflow import PolledTask
from perago.ports import Failpoint
from perago.testing import MemoryWorkspaceStore, TaskEnvironment
from tests.lossy_store import LossyStore, SoftLossyStore


class Params(BaseModel):
    text: str


class Result(BaseModel):
    """Nothing."""


@task(
    "write",
    owner_email="data@example.com",
    workspace=WorkspaceSpec(prefix="/"),
    controls=TaskControls(retry=RetryPolicy(count=3, delay_seconds=0)),
)
def write(workspace: Path, params: Params) -> Result:
    if params.text:
        (workspace / "f").write_text(params.text)
    return Result()


@pytest.fixture(params=[LossyStore, SoftLossyStore], ids=["atomic", "soft"])
def env(request: pytest.FixtureRequest) -> Iterator[TaskEnvironment]:
    kind: type[MemoryWorkspaceStore] = request.param
    with TaskEnvironment() as environment:
        environment.store = kind(environment.clock)
        environment.store.create_repository(environment.repository, branch=environment.branch)
        yield environment


def fail() -> None:
    raise RuntimeError("crashed")


def prepare(env: TaskEnvironment, kind: str) -> PolledTask:
    """An attempt that will merge, or replace or take back what an earlier one left."""
    if kind == "merge":
        return env.schedule(write, Params(text="new"))
    env.run(write, Params(text="abandoned"), at={Failpoint.VERIFIED: fail})
    polled = env.poll(write)
    polled.input["params"] = {"text": "new" if kind == "replace" else ""}
    return polled


def history(env: TaskEnvironment) -> list[CommitId]:
    head = env.store.head(env.repository, env.branch).id
    return [commit.id for commit in env.store.log(env.repository, head)]


@pytest.mark.parametrize("kind", ["merge", "replace", "take back"])
def test_a_commit_that_lands_after_the_fences_answer_stays(env: TaskEnvironment, kind: str) -> None:
    polled = prepare(env, kind)
    foreign: list[CommitId] = []

    def commit() -> None:
        env.move_head()
        foreign.append(env.store.head(env.repository, env.branch).id)

    run = env.run_attempt(write, polled, at={Failpoint.FENCED_BEFORE_ACT: commit})

    assert isinstance(run.outcome, Failed)
    assert "cannot publish to" in run.reason
    assert foreign[0] in history(env)


@pytest.mark.parametrize("kind", ["merge", "replace", "take back"])
def test_a_process_that_stood_still_after_the_fences_answer_does_not_act(
    env: TaskEnvironment, kind: str
) -> None:
    polled = prepare(env, kind)
    before = history(env)

    run = env.run_attempt(
        write, polled, at={Failpoint.FENCED_BEFORE_ACT: lambda: env.clock.advance(3600)}
    )

    assert isinstance(run.outcome, Failed)
    assert "does not begin to publish" in run.reason
    assert history(env) == before

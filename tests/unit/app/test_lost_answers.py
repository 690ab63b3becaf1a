"""A publish call whose answer is lost is settled by reading HEAD, and never sent again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel

from perago import RetryPolicy, TaskControls, WorkspaceSpec, task
from perago.domain.outcome import Completed, Failed
from perago.domain.workflow import PolledTask
from perago.ports import Failpoint
from perago.testing import TaskEnvironment
from tests.lossy_store import LossyStore


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


@pytest.fixture
def env() -> Iterator[TaskEnvironment]:
    with TaskEnvironment() as environment:
        environment.store = LossyStore(environment.clock)
        environment.store.create_repository(environment.repository, branch=environment.branch)
        yield environment


def lose(env: TaskEnvironment, what: Literal["request", "response"]) -> None:
    assert isinstance(env.store, LossyStore)
    env.store.loses = what


def fail() -> None:
    raise RuntimeError("crashed")


def retry_after_abandoning(env: TaskEnvironment, text: str) -> PolledTask:
    """Publish, fail before the report, and poll the retry with another text."""
    env.run(write, Params(text="abandoned"), at={Failpoint.VERIFIED: fail})
    polled = env.poll(write)
    params = polled.input["params"]
    assert isinstance(params, dict)
    params["text"] = text
    return polled


@pytest.mark.parametrize("kind", ["merge", "replace", "relocate"])
def test_a_lost_response_is_found_to_be_a_publication(env: TaskEnvironment, kind: str) -> None:
    polled = (
        env.schedule(write, Params(text="new"))
        if kind == "merge"
        else retry_after_abandoning(env, "new" if kind == "replace" else "")
    )
    lose(env, "response")

    run = env.run_attempt(write, polled)

    assert isinstance(run.outcome, Completed)
    assert run.files == ({} if kind == "relocate" else {"f": b"new"})
    assert run.published is (kind != "relocate")


@pytest.mark.parametrize("kind", ["merge", "replace", "relocate"])
def test_a_lost_request_is_found_to_be_none_and_fails_the_attempt(
    env: TaskEnvironment, kind: str
) -> None:
    polled = (
        env.schedule(write, Params(text="new"))
        if kind == "merge"
        else retry_after_abandoning(env, "new" if kind == "replace" else "")
    )
    before = env.store.head(env.repository, env.branch)
    lose(env, "request")

    run = env.run_attempt(write, polled)

    assert isinstance(run.outcome, Failed)
    assert run.head == before


def test_a_lost_answer_and_a_stranger_on_the_branch_is_a_failure(env: TaskEnvironment) -> None:
    polled = env.schedule(write, Params(text="new"))
    lose(env, "request")

    run = env.run_attempt(write, polled, at={Failpoint.FENCED_BEFORE_ACT: env.move_head})

    assert isinstance(run.outcome, Failed)
    assert "someone else's" in run.reason
    assert "f" not in run.files

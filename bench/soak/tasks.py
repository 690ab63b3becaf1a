"""What the worker has to do: tasks that succeed, write, fail, and kill their executor."""

import os
import signal
from pathlib import Path

from pydantic import BaseModel

from perago import RetryPolicy, TaskContext, TaskControls, TaskFailed, WorkspaceSpec, task

OWNER = "bench@example.com"
ONCE = TaskControls(retry=RetryPolicy(count=0))
AGAIN = TaskControls(retry=RetryPolicy(count=2, delay_seconds=0))
FILES = 20


class Params(BaseModel):
    """What tells one task from another."""

    number: int


class Result(BaseModel):
    """Proof that the body saw its params."""

    number: int


@task("soak_answer", owner_email=OWNER, controls=ONCE)
def answer(params: Params) -> Result:
    """Do nothing, and say a little."""
    print(f"number {params.number}")
    return Result(number=params.number)


@task("soak_write", owner_email=OWNER, controls=AGAIN, workspace=WorkspaceSpec(prefix="soak"))
def write(workspace: Path, params: Params) -> Result:
    """Change one of a few files, so that the workspace does not grow."""
    (workspace / f"{params.number % FILES}.txt").write_text(f"{params.number}\n" * 1000)
    return Result(number=params.number)


@task("soak_fail", owner_email=OWNER, controls=ONCE)
def fail(params: Params) -> Result:
    """Fail, with a traceback."""
    raise TaskFailed(f"number {params.number} fails, as it should")


@task("soak_die", owner_email=OWNER, controls=AGAIN)
def die(params: Params, context: TaskContext) -> Result:
    """Take the executor along, the first time."""
    if context.attempt.retry_count == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return Result(number=params.number)

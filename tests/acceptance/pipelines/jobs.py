"""Well-behaved tasks for tests of a worker. Copied under a name of the test's own, which they take.

A Conductor has one queue for all who call a task by the same name.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from pydantic import BaseModel

from perago import (
    Pipeline,
    PublishBudget,
    RetryPolicy,
    TaskContext,
    TaskControls,
    TimeoutPolicy,
    WorkspaceSpec,
    task,
)

MARK = Path(__file__).stem.rpartition("_")[2]
OWNER = "data@example.com"


def controls(lease: int, merge: float, beat: float = 1) -> TaskControls:
    """Retried at once; `lease` is the response time-out."""
    return TaskControls(
        retry=RetryPolicy(count=5, delay_seconds=0),
        timeout=TimeoutPolicy(response_seconds=lease),
        publish_budget=PublishBudget(
            observed_merge_p99_seconds=1,
            safety_factor=1,
            conductor_completion_reserve_seconds=1,
            heartbeat_interval_seconds=beat,
            shutdown_grace_seconds=1,
            lakefs_merge_timeout_seconds=merge,
        ),
    )


class Params(BaseModel):
    """`gate` is a file to wait for, `witness` one that gets a line of every run of the body.

    `idle_from` is the retry from which on the body changes nothing; `apart`: no two attempts write
    the same file.
    """

    text: str = "done"
    seconds: float = 0.0
    gate: str = ""
    witness: str = ""
    idle_from: int = 100
    apart: bool = False


class Result(BaseModel):
    retry: int
    process: int


def behave(params: Params, context: TaskContext) -> Result:
    """Wait as told, and leave a line: when it began and ended, and which retry in which process."""
    began = time.monotonic()
    while params.gate and not Path(params.gate).exists() and not context.cancelled:
        time.sleep(0.02)
    time.sleep(params.seconds)
    result = Result(retry=context.attempt.retry_count, process=os.getpid())
    if params.witness:
        with Path(params.witness).open("a") as lines:
            lines.write(f"{began} {time.monotonic()} {result.retry} {result.process}\n")
    return result


def write(workspace: Path, params: Params, context: TaskContext) -> Result:
    """Leave a file that tells which attempt wrote it."""
    result = behave(params, context)
    if result.retry < params.idle_from:
        name = f"{params.text}-{result.retry}" if params.apart else params.text
        (workspace / f"{name}.txt").write_text(f"{params.text} {result.retry}")
    return result


@task(f"step_{MARK}", owner_email=OWNER, workspace=WorkspaceSpec("out"), controls=controls(60, 5))
def step(workspace: Path, params: Params, context: TaskContext) -> Result:
    """Write a file."""
    return write(workspace, params, context)


@task(
    f"brief_{MARK}",
    owner_email=OWNER,
    workspace=WorkspaceSpec("out"),
    controls=controls(10, 3, beat=2),
)
def brief(workspace: Path, params: Params, context: TaskContext) -> Result:
    """The same, on a short lease."""
    return write(workspace, params, context)


@task(
    f"look_{MARK}",
    owner_email=OWNER,
    workspace=WorkspaceSpec("out", read_only=True),
    controls=controls(60, 5),
)
def look(workspace: Path, params: Params, context: TaskContext) -> Result:
    """Change local files, which nobody will see."""
    (workspace / "scratch").write_text("thrown away")
    return behave(params, context)


@task(f"plain_{MARK}", owner_email=OWNER, controls=controls(60, 5))
def plain(params: Params, context: TaskContext) -> Result:
    """Nothing but a body."""
    return behave(params, context)


class More(BaseModel):
    lines: int = 3


class Added(BaseModel):
    files: list[str]


@task(f"add_{MARK}", owner_email=OWNER, workspace=WorkspaceSpec("out"), controls=controls(60, 5))
def add(workspace: Path, params: More) -> Added:
    """A file beside the first step's."""
    (workspace / "added.txt").write_text("line\n" * params.lines)
    return Added(files=sorted(path.name for path in workspace.iterdir()))


@task(f"tidy_{MARK}", owner_email=OWNER, workspace=WorkspaceSpec("/"), controls=controls(60, 5))
def tidy(workspace: Path, params: More) -> Added:
    """One file less, seen from the root."""
    (workspace / "in" / "old.txt").unlink()
    return Added(files=sorted(str(p.relative_to(workspace)) for p in workspace.rglob("*.txt")))


class AllParams(Params, More):
    pass


pipeline = Pipeline(f"jobs_{MARK}", 1, [step, add, look, tidy], params=AllParams)

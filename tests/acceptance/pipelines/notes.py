"""A tiny pipeline without Spark that waits, fails and asks when it is told to."""

from __future__ import annotations

import time
from pathlib import Path

from pydantic import BaseModel

from perago import (
    Pipeline,
    PublishBudget,
    RetryPolicy,
    TaskContext,
    TaskControls,
    TaskTerminalError,
    WorkspaceSpec,
    task,
)
from perago.authoring import human

OWNER = "data@example.com"
# Retried at once, and a cancelled attempt is noticed within a moment.
QUICK = TaskControls(
    retry=RetryPolicy(count=5, delay_seconds=0),
    publish_budget=PublishBudget(
        observed_merge_p99_seconds=5,
        safety_factor=2,
        conductor_completion_reserve_seconds=1,
        heartbeat_interval_seconds=0.3,
        shutdown_grace_seconds=1,
    ),
)
NOTES = WorkspaceSpec("notes")


class Params(BaseModel):
    """`gate` is a file without which writing does not go on."""

    text: str = "hello"
    gate: str = ""
    broken: bool = False


class Written(BaseModel):
    characters: int


@task("write", owner_email=OWNER, workspace=NOTES, controls=QUICK)
def write(workspace: Path, params: Params, context: TaskContext) -> Written:
    """Write a note, once the gate is open."""
    print("writing", params.text)
    context.progress("at the gate")
    while params.gate and not Path(params.gate).exists():
        time.sleep(0.02)
    if params.broken:
        raise TaskTerminalError("the pen is broken")
    return Written(characters=(workspace / "note.txt").write_text(params.text, encoding="utf-8"))


@task("shout", owner_email=OWNER, workspace=NOTES, controls=QUICK)
def shout(workspace: Path, params: Params) -> Written:
    """Write it again, louder."""
    text = (workspace / "note.txt").read_text(encoding="utf-8").upper()
    return Written(characters=(workspace / "loud note.txt").write_text(text, encoding="utf-8"))


notes = Pipeline("notes", 1, [write, shout], params=Params)
gated = Pipeline(
    "gated", 1, [write, human("approve", writes_workspace=False), shout], params=Params
)

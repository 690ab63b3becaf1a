"""Bodies that misbehave in every way a body can: for tests of the worker."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
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

OWNER = "data@example.com"
RETRIED = TaskControls(retry=RetryPolicy(count=5, delay_seconds=0))
# A short lease: heartbeats every third of a second are all that keeps it.
SHORT_LEASE = TaskControls(
    retry=RetryPolicy(count=0),
    timeout=TimeoutPolicy(response_seconds=2),
    publish_budget=PublishBudget(
        observed_merge_p99_seconds=0.1,
        safety_factor=1,
        conductor_completion_reserve_seconds=0,
        heartbeat_interval_seconds=0.3,
        shutdown_grace_seconds=0,
        lakefs_merge_timeout_seconds=0.5,
    ),
)


class Params(BaseModel):
    file: str = ""
    seconds: float = 0.0


class Result(BaseModel):
    retry: int = 0


@task("die", owner_email=OWNER, controls=RETRIED)
def die(params: Params) -> Result:
    """Always take the process along."""
    os._exit(7)


@task("die_once", owner_email=OWNER, workspace=WorkspaceSpec(prefix="/"), controls=RETRIED)
def die_once(workspace: Path, params: Params, context: TaskContext) -> Result:
    """Take the process along, the first time."""
    (workspace / "f").write_text("half")
    if context.attempt.retry_count == 0:
        os.kill(os.getpid(), 9)
    (workspace / "f").write_text("whole")
    return Result(retry=context.attempt.retry_count)


@task("chatter", owner_email=OWNER)
def chatter(params: Params, context: TaskContext) -> Result:
    """Print, log, run a child that prints, write bytes, change directory."""
    print("a line on stdout")
    print("a line on stderr", file=sys.stderr)
    context.logger.warning("a line from the logger")
    subprocess.run([sys.executable, "-c", "print('a line from a child')"], check=True)
    os.write(1, b"\xff\xfe binary\n")
    os.chdir("/")
    context.progress("half way", 0.5)
    return Result()


@task("where", owner_email=OWNER)
def where(params: Params) -> Result:
    """Write the working directory to a file."""
    Path(params.file).write_text(str(Path.cwd()))
    return Result()


@task("hold_the_lock", owner_email=OWNER, controls=SHORT_LEASE)
def hold_the_lock(params: Params) -> Result:
    """Keep the interpreter lock for longer than the lease, in one C call."""
    # pow() of big integers does not release the lock; each call takes a noticeable while.
    ends = time.monotonic() + params.seconds
    while time.monotonic() < ends:
        pow(3, 10**6)
    return Result()


@task(
    "linger",
    owner_email=OWNER,
    workspace=WorkspaceSpec(prefix="/"),
    controls=SHORT_LEASE,
)
def linger(workspace: Path, params: Params, context: TaskContext) -> Result:
    """Start a child, write down both pids, and stay until somebody ends it."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(params.file).write_text(f"{os.getpid()} {child.pid}")
    (workspace / "never").write_text("published")
    while not context.cancelled or params.seconds:
        time.sleep(0.05)
    return Result()


@task("vandalise", owner_email=OWNER, workspace=WorkspaceSpec(prefix="/"))
def vandalise(workspace: Path, params: Params) -> Result:
    """Break everything in the process that a body can reach, and write a file too big to inline."""
    os.environ["VANDAL"] = "was here"
    os.umask(0o077)
    logging.getLogger().handlers.clear()
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.alarm(600)
    sys.stdout = io.StringIO()
    (workspace / "large").write_bytes(b"x" * (1 << 20))
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    # What still writes to standard error must not write into an object of the store.
    stray = threading.Thread(target=write_stray_lines, daemon=True)
    stray.start()
    return Result()


def write_stray_lines() -> None:
    for _ in range(2000):
        with contextlib.suppress(OSError):
            os.write(2, b"stray\n")
        time.sleep(0.001)


@task("inspect", owner_email=OWNER)
def inspect(params: Params) -> Result:
    """Write down what the process looks like to the next body."""
    mask = os.umask(0)
    os.umask(mask)
    state = {
        "environment": os.environ.get("VANDAL"),
        "umask": mask,
        "handlers": len(logging.getLogger().handlers),
        "logging": logging.root.manager.disable,
        "sigterm": signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN,
        "alarm": signal.alarm(0),
        "stdout": type(sys.stdout).__name__,
        "stdin": sys.stdin.read(),
    }
    Path(params.file).write_text(json.dumps(state))
    return Result()


@task("orphan", owner_email=OWNER, controls=TaskControls(retry=RetryPolicy(count=0)))
def orphan(params: Params) -> Result:
    """Die while a forked child lives on and keeps every pipe open."""
    child = os.fork()
    if child == 0:
        time.sleep(600)
    Path(params.file).write_text(f"{os.getpid()} {child}")
    os.kill(os.getpid(), signal.SIGKILL)
    return Result()


@task("split", owner_email=OWNER, workspace=WorkspaceSpec(prefix="/"))
def split(workspace: Path, params: Params) -> Result:
    """Fork, and let both sides return."""
    (workspace / "f").write_text("once")
    os.fork()
    return Result()


@task("flood", owner_email=OWNER, controls=SHORT_LEASE)
def flood(params: Params, context: TaskContext) -> Result:
    """Talk without pause for longer than the lease, also nonsense."""
    ends = time.monotonic() + params.seconds
    while time.monotonic() < ends:
        context.progress("reading \udcff" + "x" * 10_000)
    return Result()


@task("cancelled", owner_email=OWNER, controls=TaskControls(retry=RetryPolicy(count=0)))
def cancelled(params: Params) -> Result:
    """Raise what is no `Exception`."""
    raise asyncio.CancelledError


@task("babble", owner_email=OWNER, controls=TaskControls(retry=RetryPolicy(count=0)))
def babble(params: Params) -> Result:
    """Print without end."""
    while True:
        print("x" * 1000)
        time.sleep(0.0001)


@task("breed", owner_email=OWNER, controls=TaskControls(retry=RetryPolicy(count=0)))
def breed(params: Params) -> Result:
    """Start more processes than are allowed, and wait."""
    children = [subprocess.Popen(["sleep", "600"]) for _ in range(30)]
    Path(params.file).write_text(" ".join(str(child.pid) for child in children))
    time.sleep(600)
    return Result()


@task("hoard", owner_email=OWNER, controls=TaskControls(retry=RetryPolicy(count=0)))
def hoard(params: Params) -> Result:
    """Open files and close none."""
    Path(params.file).write_text(str(resource.getrlimit(resource.RLIMIT_CORE)))
    hoarded = [Path(params.file).open() for _ in range(1000)]  # noqa: SIM115
    return Result(retry=len(hoarded))


babbling = Pipeline("babbling", 1, [babble], params=Params)
breeding = Pipeline("breeding", 1, [breed], params=Params)
hoarding = Pipeline("hoarding", 1, [hoard], params=Params)
vandal = Pipeline("vandal", 1, [vandalise, inspect], params=Params)
orphaning = Pipeline("orphaning", 1, [orphan], params=Params)
splitting = Pipeline("splitting", 1, [split], params=Params)
flooding = Pipeline("flooding", 1, [flood], params=Params)
raising = Pipeline("raising", 1, [cancelled], params=Params)
dying = Pipeline("dying", 1, [die], params=Params)
recovering = Pipeline("recovering", 1, [die_once], params=Params)
chatting = Pipeline("chatting", 1, [chatter, where], params=Params)
holding = Pipeline("holding", 1, [hold_the_lock], params=Params)
lingering = Pipeline("lingering", 1, [linger], params=Params)

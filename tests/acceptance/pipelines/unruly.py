"""Tasks that fail in every way that the protocol knows, and bodies that misbehave.

Copied under a name of the test's own, which the tasks take.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from perago import (
    PublishBudget,
    RetryPolicy,
    TaskContext,
    TaskControls,
    TaskFailed,
    TaskTerminalError,
    TimeoutPolicy,
    WorkspaceSpec,
    forbid_glob,
    require_file,
    task,
)

MARK = Path(__file__).stem.rpartition("_")[2]
OWNER = "data@example.com"
BUDGET = PublishBudget(
    observed_merge_p99_seconds=1,
    safety_factor=1,
    conductor_completion_reserve_seconds=1,
    heartbeat_interval_seconds=1,
    shutdown_grace_seconds=1,
    lakefs_merge_timeout_seconds=3,
)
ONCE = TaskControls(
    retry=RetryPolicy(count=0),
    timeout=TimeoutPolicy(response_seconds=60),
    publish_budget=BUDGET,
)
RETRIED = TaskControls(
    retry=RetryPolicy(count=9, delay_seconds=0),
    timeout=TimeoutPolicy(response_seconds=60),
    publish_budget=BUDGET,
)
BOUNDED = TaskControls(
    retry=RetryPolicy(count=0),
    timeout=TimeoutPolicy(response_seconds=8, total_seconds=8),
    publish_budget=BUDGET,
)


class Params(BaseModel):
    """`how` names what goes wrong; `file` is where a body says that it runs."""

    how: str = ""
    text: str = ""
    file: str = ""
    gate: str = ""


class Result(BaseModel):
    note: str = ""
    count: int = 0


class OutOfPaperError(Exception):
    """No error of Perago's."""


@task(
    f"fail_{MARK}",
    owner_email=OWNER,
    workspace=WorkspaceSpec("/", pre=[require_file("in/kept.txt")], post=[forbid_glob("**/*.tmp")]),
    controls=ONCE,
)
def fail(workspace: Path, params: Params, context: TaskContext) -> Result:
    """Write a file, unless told to change nothing, and fail as told."""
    if params.file:
        Path(params.file).write_text("runs")
    if params.how != "idle":
        (workspace / "written.txt").write_text("written")
    while params.gate and not Path(params.gate).exists():
        time.sleep(0.02)
    return FAILURES.get(params.how, Result)() if params.how != "post" else leave_tmp(workspace)


def raise_terminal() -> Result:
    raise TaskTerminalError("the pen is broken")


def raise_failed() -> Result:
    raise TaskFailed("the ink is dry")


def raise_error() -> Result:
    raise OutOfPaperError("no paper")


def return_nonsense() -> Result:
    return Result.model_construct(note="fine", count="many")


def return_large() -> Result:
    return Result(note="x" * (4 << 20))


def leave_tmp(workspace: Path) -> Result:
    (workspace / "half.tmp").write_text("half")
    return Result()


FAILURES: dict[str, Callable[[], Result]] = {
    "terminal": raise_terminal,
    "failed": raise_failed,
    "error": raise_error,
    "nonsense": return_nonsense,
    "large": return_large,
}


@task(f"bounded_{MARK}", owner_email=OWNER, workspace=WorkspaceSpec("/"), controls=BOUNDED)
def bounded(workspace: Path, params: Params) -> Result:
    """Take more time than there is, and look at nothing."""
    (workspace / "written.txt").write_text("written")
    Path(params.file).write_text("runs")
    time.sleep(600)
    return Result()


@task(f"deadly_{MARK}", owner_email=OWNER, controls=RETRIED)
def deadly(params: Params) -> Result:
    """Take the process along, every time."""
    os._exit(7)


@task(f"measure_{MARK}", owner_email=OWNER, controls=ONCE)
def measure(params: Params) -> Result:
    """Say how long the text is, and whether an earlier body left its mark on the process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    return Result(note="" if soft == hard else "limited", count=len(params.text))


@task(f"misbehave_{MARK}", owner_email=OWNER, controls=ONCE)
def misbehave(params: Params) -> Result:
    """Do to the process what no body should."""
    return MISDEEDS[params.how](params)


def exit_at_once(_: Params) -> Result:
    os._exit(7)


def read_nowhere(_: Params) -> Result:
    ctypes.string_at(0)
    return Result()


def eat_memory(_: Params) -> Result:
    """Under a limit of its own, which the body does not take back."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), resource.RLIM_INFINITY))
    eaten = []
    while True:
        eaten.append(bytearray(8 << 20))


def ignore_signals(params: Params) -> Result:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    Path(params.file).write_text("runs")
    while True:
        time.sleep(600)


def print_binary(_: Params) -> Result:
    sys.stdout.buffer.write(bytes(range(256)) * 1024)
    os.write(2, b"\xff\xfe\x00" * 1024)
    return Result(note="printed")


def fork_children(params: Params) -> Result:
    """Some that stay, and one that returns from the body beside its parent."""
    for _ in range(3):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    os.fork()
    return Result(note="forked")


def change_directory(_: Params) -> Result:
    os.chdir("/")
    return Result(note=str(Path.cwd()))


MISDEEDS: dict[str, Callable[[Params], Result]] = {
    "exits": exit_at_once,
    "segfaults": read_nowhere,
    "eats memory": eat_memory,
    "ignores signals": ignore_signals,
    "prints binary": print_binary,
    "forks children": fork_children,
    "changes directory": change_directory,
}

"""The process of one attempt: what it is told, what it tells, and how it is started.

Only the standard library, for the peer's sake.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from bench.transfer.workload import Scenario, Workspace

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One attempt: on a branch of its own that stands at the input ref.

    `place` is an empty directory for whatever the contestant needs on disk.
    """

    workspace: Workspace
    scenario: Scenario
    seed: int
    repository: str
    branch: str
    ref: str
    source: Path
    place: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How long an attempt took, which phases that was, and what its process needed."""

    seconds: float
    cpu_seconds: float | None = None
    phases: dict[str, float] = field(default_factory=dict)
    peak_bytes: int | None = None


class ChildFailedError(Exception):
    """An attempt's process ended badly."""


def run_child(
    command: Sequence[str], job: Job, environment: Mapping[str, str], **more: object
) -> Run:
    """Run one attempt in a process of its own; credentials travel in its environment."""
    answer = job.place / "answer.json"
    request = json.dumps({"job": asdict(job), "answer": answer, **more}, default=str)
    done = subprocess.run(
        command,
        input=request,
        env={**os.environ, **environment},
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0 or not answer.exists():
        raise ChildFailedError(f"{command} ended with {done.returncode}:\n{done.stderr}")
    return Run(**json.loads(answer.read_text()))


def read_request() -> tuple[Job, dict[str, Any]]:
    """What this process is to do: the job, and everything that came with it."""
    request = json.load(sys.stdin)
    job = request["job"]
    job["workspace"] = Workspace(**job["workspace"])
    job["scenario"] = Scenario(job["scenario"])
    for name in ("source", "place"):
        job[name] = Path(job[name])
    return Job(**job), request


class Timer:
    """The time that a block takes, on the clock and in this process."""

    def __enter__(self) -> Self:
        self._began = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.seconds = time.perf_counter() - self._began[0]
        self.cpu_seconds = time.process_time() - self._began[1]


def answer(request: Mapping[str, Any], timer: Timer, phases: Mapping[str, float]) -> None:
    """Tell how it went, and what it took."""
    run = Run(
        seconds=timer.seconds,
        cpu_seconds=timer.cpu_seconds,
        phases=dict(phases),
        peak_bytes=_peak_bytes(),
    )
    Path(request["answer"]).write_text(json.dumps(asdict(run)))


def _peak_bytes() -> int:
    """The most memory that this process held.

    What the kernel reports as `ru_maxrss` begins with what the parent held at the fork, so where
    there is a figure of this program alone, that one counts.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (text for text in status.read_text().splitlines() if text.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

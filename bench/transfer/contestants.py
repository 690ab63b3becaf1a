"""Who is measured: Perago, the public peer, lakectl and `cp -r`."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from bench.store import CP
from bench.transfer.child import Job, Run, run_child
from bench.transfer.server import Server
from bench.transfer.workload import Scenario, changed_files, file_name, run_body


class Publishes(StrEnum):
    """What is to be found on the branch after an attempt that changed something."""

    NOTHING = "nothing"
    CHANGES = "changes"
    ALL = "all"
    """Every file is uploaded again, and may count as changed."""


class Contestant(Protocol):
    """Runs whole attempts."""

    @property
    def publishes(self) -> Publishes:
        """What it leaves on the branch."""
        ...

    def prepare(self, job: Job) -> None:
        """What is done before the clock starts."""
        ...

    def attempt(self, job: Job) -> Run:
        """Download, run the body, publish."""
        ...


class Cache(StrEnum):
    """The state of Perago's object cache when an attempt begins."""

    OFF = "off"
    COLD = "cold"
    WARM = "warm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Perago:
    """This project: an `AttemptRun` in a process of its own."""

    server: Server
    cache: Cache
    concurrency: int | None
    publishes: Publishes = Publishes.CHANGES

    def prepare(self, job: Job) -> None:
        """A warm cache is one that saw another attempt on the same commit."""
        if self.cache is Cache.WARM:
            elsewhere = job.place.with_name(f"{job.place.name}-before")
            elsewhere.mkdir()
            before = replace(job, scenario=Scenario.NO_OP, place=elsewhere)
            self._run(before, cache=job.place / "cache")

    def attempt(self, job: Job) -> Run:
        """A cache that is on and empty costs something too: it is filled."""
        return self._run(job, cache=None if self.cache is Cache.OFF else job.place / "cache")

    def _run(self, job: Job, cache: Path | None) -> Run:
        return run_child(
            [sys.executable, "-m", "bench.transfer.perago_attempt"],
            job,
            self.server.environment,
            cache=cache,
            concurrency=self.concurrency,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The public `perago` of another author, in an environment of its own."""

    server: Server
    python: Path
    publishes: Publishes = Publishes.ALL

    def prepare(self, job: Job) -> None:
        """It keeps nothing between attempts."""

    def attempt(self, job: Job) -> Run:
        """Its executor loop on one assignment."""
        own = {
            "PERAGO_WORKSPACE_ROOT": str(job.place / "workspaces"),
            "PERAGO_LOG_ROOT": str(job.place / "logs"),
            "PERAGO_WORKER_ID": "bench0001",
        }
        command = [str(self.python), "-m", "bench.transfer.peer_attempt"]
        return run_child(command, job, {**self.server.environment, **own})


@dataclass(slots=True)
class Stopwatch:
    """Times the parts of what is no single process."""

    phases: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """One part."""
        began = time.perf_counter()
        yield
        self.phases[name] = time.perf_counter() - began


@dataclass(frozen=True, slots=True, kw_only=True)
class Lakectl:
    """lakeFS's own command line, doing by hand what an attempt does, with nothing fenced."""

    server: Server
    binary: Path
    publishes: Publishes = Publishes.CHANGES

    def prepare(self, job: Job) -> None:
        """It keeps nothing between attempts."""

    def attempt(self, job: Job) -> Run:
        """Download; the body; a staging branch with the changed files, committed and merged."""
        watch, files = Stopwatch(), job.place / "files"
        staging = f"{job.branch}-staging"
        with watch.phase("download"):
            self._run("fs", "download", "-r", f"{_uri(job, job.ref)}/", f"{files}/")
        with watch.phase("body"):
            run_body(files, job.scenario, job.seed, job.workspace)
        if job.scenario is not Scenario.NO_OP:
            with watch.phase("stage"):
                self._run("branch", "create", _uri(job, staging), "-s", _uri(job, job.ref))
                self._upload(job, files, staging)
                self._run("commit", _uri(job, staging), "-m", "bench")
            with watch.phase("publish"):
                self._run("merge", "--squash", _uri(job, staging), _uri(job, job.branch))
        with watch.phase("cleanup"):
            shutil.rmtree(files)
            if job.scenario is not Scenario.NO_OP:
                self._run("branch", "delete", "-y", _uri(job, staging))
        return Run(seconds=sum(watch.phases.values()), phases=watch.phases)

    def _upload(self, job: Job, files: Path, branch: str) -> None:
        if job.scenario is Scenario.REWRITE_ALL:
            self._run("fs", "upload", "-r", "-s", f"{files}/", f"{_uri(job, branch)}/")
            return
        for index in changed_files(job.scenario, job.workspace.count):
            name = file_name(index)
            self._run("fs", "upload", "-s", str(files / name), f"{_uri(job, branch)}/{name}")

    def import_directory(self, source: Path, repository: str) -> None:
        """Upload and commit a directory to main."""
        uri = f"lakefs://{repository}/main"
        self._run("fs", "upload", "-r", "-s", f"{source}/", f"{uri}/")
        self._run("commit", uri, "-m", "files")

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(
            [self.binary, *arguments],
            env={**os.environ, **self.server.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"lakectl {' '.join(arguments)}: {done.stdout}{done.stderr}")


def _uri(job: Job, ref: str) -> str:
    return f"lakefs://{job.repository}/{ref}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """`cp -r` of the same files: the measure of the machine."""

    publishes: Publishes = Publishes.NOTHING

    def prepare(self, job: Job) -> None:
        """Nothing to prepare."""

    def attempt(self, job: Job) -> Run:
        """A copy, whatever the scenario."""
        watch = Stopwatch()
        with watch.phase("download"):
            subprocess.run([CP, "-r", job.source, job.place / "copy"], check=True)
        return Run(seconds=watch.phases["download"], phases=watch.phases)

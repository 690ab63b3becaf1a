"""The real command line, in real processes, on a home of the test's own."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.adapters.localfs.clock import SystemClock
from perago.domain.ids import BranchName, RepositoryName
from perago.domain.publication import Commit

NOTES = str(Path(__file__).parent / "pipelines" / "notes.py")
PERAGO = [sys.executable, "-m", "perago"]
PATIENCE_SECONDS = 240


@dataclass(frozen=True, slots=True)
class Ended:
    """How a call ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Running(AbstractContextManager["Running"]):
    """A call under way, leading a process group; whatever is left of it is killed at the end."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []

    def wait_for(self, words: str) -> str:
        """Read on until a line holds these words."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if words in line:
                return self.lines[-1]
        raise AssertionError(f"{words!r} never came: {self.lines}")

    def signal(self, number: signal.Signals) -> None:
        """What the terminal does on Ctrl-C: a signal to the whole group."""
        os.killpg(self.process.pid, number)

    def end(self) -> int:
        """Read to the end, and give the exit code."""
        out, _ = self.process.communicate(timeout=PATIENCE_SECONDS)
        self.lines += out.splitlines()
        return self.process.returncode

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self.process.communicate()


@dataclass(frozen=True, slots=True)
class CommandLine:
    """`perago` on one home; `settings` are variables for every call."""

    home: Path
    settings: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, *arguments: str, **environment: str) -> Ended:
        done = subprocess.run(
            [*PERAGO, *arguments],
            env=self.environment(environment),
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def shell(self, command: str) -> Ended:
        """Run a command line as it was printed for a person to copy."""
        done = subprocess.run(
            command.replace("perago ", f"{shlex.quote(sys.executable)} -m perago ", 1),
            env=self.environment({}),
            shell=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str, **environment: str) -> Running:
        return Running([*PERAGO, *arguments], self.environment(environment))

    def environment(self, extra: dict[str, str]) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PERAGO_", "LAKECTL_", "CONDUCTOR_"))
        }
        own = {"PERAGO_HOME": str(self.home), "PYTHONUNBUFFERED": "1"}
        return {**kept, **own, **self.settings, **extra}

    def history(self, repository: str) -> list[Commit]:
        """The commits of a repository's main branch, oldest first."""
        with EmbeddedWorkspaceStore(self.home, SystemClock()) as store:
            name = RepositoryName(repository)
            head = store.head(name, BranchName("main")).id
            return list(store.log(name, head))[::-1]

    def wait_until(self, condition: Callable[[Self], bool]) -> None:
        """Look again and again until it is so."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition(self):
            assert time.monotonic() < deadline, "it never became so"
            time.sleep(0.05)


def steps_of(history: list[Commit]) -> list[str]:
    """Which step made each commit after the first; also checks that history is a line."""
    for before, after in pairwise(history):
        assert after.parents == (before.id,)
    return [commit.metadata.get("perago.reference", "") for commit in history[1:]]

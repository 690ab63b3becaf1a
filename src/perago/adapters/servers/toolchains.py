"""Running somebody else's tool to its end: Go, Maven.

Invariant: whatever happens to this process, nothing of the tool goes on running.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perago.adapters.environment import without_own_variables
from perago.adapters.progress import Progress
from perago.system.parent_watch import Tether

_BOUND_SECONDS = 3600
_INTERRUPT_SECONDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """How a tool ended and what it printed. `code` is None when it did not end in time."""

    code: int | None
    out: str
    err: str

    @property
    def how(self) -> str:
        """The end in words."""
        late = f"still not done after {_BOUND_SECONDS} s"
        return late if self.code is None else f"exit code {self.code}"

    def failure(self, lines: list[str], keep: int = 12) -> str:
        """The end in words, with the last of these lines."""
        return "\n".join([self.how, *lines[-keep:]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program that is run; `scratch` is an empty directory of the caller's own."""

    path: Path
    scratch: Path
    environment: Mapping[str, str]
    progress: Progress

    def run(self, arguments: list[str], *, directory: Path, doing: str) -> ToolAnswer:
        """Run it in a directory, and say meanwhile what it is doing."""
        self.progress.say(doing)
        out, err = self.scratch / "tool.out", self.scratch / "tool.err"
        with out.open("wb") as stdout, err.open("wb") as stderr, Tether() as tether:
            process = subprocess.Popen(
                [str(self.path), *arguments],
                cwd=directory,
                env=without_own_variables(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                process_group=tether.group,
            )
            try:
                code = self._wait(process, doing)
            finally:
                _end_group(process, tether.group)
        return ToolAnswer(
            code=code, out=out.read_text("utf-8", "replace"), err=err.read_text("utf-8", "replace")
        )

    def _wait(self, process: subprocess.Popen[bytes], doing: str) -> int | None:
        began = time.monotonic()
        while time.monotonic() - began < _BOUND_SECONDS:
            try:
                return process.wait(timeout=self.progress.every_seconds)
            except subprocess.TimeoutExpired:
                self.progress.going_on(doing, time.monotonic() - began)
        return None


def _end_group(process: subprocess.Popen[bytes], group: int) -> None:
    """Interrupt the tool and what it started, then kill what is left."""
    if process.poll() is None:
        # Go cleans up on an interrupt, not on SIGTERM.
        os.killpg(group, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_INTERRUPT_SECONDS)
        os.killpg(group, signal.SIGKILL)
        process.wait()

"""A worker as an operator has it: `perago start` in a process of its own, told by signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType

import psutil

PATIENCE_SECONDS = 300.0
SITE_VARIABLE = "TESTS_SITE"
"""Set for a site's workers; everything that they start inherits it."""


def wait_until(
    condition: Callable[[], object], what: str, within: float = PATIENCE_SECONDS
) -> None:
    """Look again and again until it is so."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still run."""
    return [process for process in processes if _is_living(process)]


def _is_living(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def processes_of_site(site: str) -> list[psutil.Process]:
    """Whatever the workers of a site started, however deep, and whoever its parent is now."""
    return living([process for process in psutil.process_iter() if _is_of_site(process, site)])


def _is_of_site(process: psutil.Process, site: str) -> bool:
    try:
        return process.environ().get(SITE_VARIABLE) == site
    except (psutil.Error, OSError):  # gone, or somebody else's
        return False


class WorkerProcess(AbstractContextManager["WorkerProcess"]):
    """One worker; whatever is left of it is killed at the end of the block."""

    def __init__(self, command: list[str], environment: Mapping[str, str], home: Path) -> None:
        self.home = home
        self.log = home.with_suffix(f".{time.monotonic_ns()}.log")
        home.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                env=dict(environment),
                cwd=home.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    # -- what it says

    @property
    def said(self) -> str:
        """All that it printed so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, words: str) -> None:
        """Wait until it said these words; it must not end before."""

        def has_said() -> bool:
            said = self.said
            if words not in said and self.process.poll() is not None:
                raise AssertionError(f"{words!r} never came:\n{said}")
            return words in said

        wait_until(has_said, f"the worker says {words!r}")

    def wait_until_ready(self) -> None:
        """Wait until it took its root and polls."""
        self.wait_for("executors for")

    @property
    def entries(self) -> Iterator[dict[str, object]]:
        """Its log lines, as the JSON objects that they are."""
        for line in self.said.splitlines():
            with suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict):
                    yield entry

    @property
    def attempt_directories(self) -> list[str]:
        """What attempts left, or have, on this machine."""
        attempts = self.home / "workspaces" / "attempts"
        return sorted(path.name for path in attempts.glob("*-*/"))

    # -- its processes

    @property
    def tree(self) -> list[psutil.Process]:
        """The supervisor, then its executors and guardians and what they started."""
        with suppress(psutil.NoSuchProcess):
            supervisor = psutil.Process(self.process.pid)
            return [supervisor, *supervisor.children(recursive=True)]
        return []

    def signal(self, number: signal.Signals) -> None:
        """To the supervisor alone, as a service manager or Kubernetes does."""
        os.kill(self.process.pid, number)

    def freeze(self) -> list[psutil.Process]:
        """Stop the whole tree, the supervisor first: nobody beats any more."""
        frozen = self.tree
        for process in frozen:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        return frozen

    def thaw(self, frozen: list[psutil.Process]) -> None:
        """Let it go on, executors before the supervisor that could tell them that it is late."""
        for process in reversed(frozen):
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def kill(self) -> None:
        """kill -9 of the supervisor; its executors must follow by themselves."""
        self.process.kill()
        self.process.wait()

    def end(self, within: float = PATIENCE_SECONDS) -> int:
        """Wait for its end, and give the exit code."""
        return self.process.wait(timeout=within)

    def stop(self, within: float = PATIENCE_SECONDS) -> int:
        """Ask it to stop, and wait; it fails where it takes longer than it may."""
        self.signal(signal.SIGTERM)
        return self.end(within)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.tree:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()

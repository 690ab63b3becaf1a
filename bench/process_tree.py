"""A worker as a process with all that it starts: its output, its cost, and its end."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

PROJECT = Path(__file__).parent.parent
_STOP_SECONDS = 10.0
_FOREIGN = ("PERAGO_", "CONDUCTOR_", "LAKECTL_", "LAKEFS_", "OTEL_")


class ProcessTree:
    """A running process and its descendants."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log
        self._root = psutil.Process(process.pid)

    @property
    def members(self) -> list[psutil.Process]:
        """All that run now, the root first."""
        try:
            return [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    @property
    def cpu_seconds(self) -> float:
        """What all of them used so far, with those that ended and were waited for."""
        total = 0.0
        for member in self.members:
            try:
                times = member.cpu_times()
            except psutil.Error:  # it ended just now: its parent has its time
                continue
            total += times.user + times.system + times.children_user + times.children_system
        return total

    def require_alive(self) -> None:
        """Fail with what it printed last, if it is gone."""
        if self.process.poll() is not None:
            said = self.log.read_text(errors="replace")[-3000:]
            raise RuntimeError(f"the worker ended with {self.process.returncode}:\n{said}")


@contextmanager
def run_tree(
    command: Sequence[str | Path], *, log: Path, environment: Mapping[str, str]
) -> Iterator[ProcessTree]:
    """Run a command at the project's root, and end it with all that it started."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=PROJECT,
            env={**bare_environment(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    tree = ProcessTree(process, log)
    try:
        yield tree
    finally:
        _end(tree)


def bare_environment() -> dict[str, str]:
    """This process's, without what configures a worker."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}


def _end(tree: ProcessTree) -> None:
    """SIGTERM, as an operator does; then SIGKILL for all that is left."""
    members = tree.members
    if tree.process.poll() is None:
        tree.process.send_signal(signal.SIGTERM)
        try:
            tree.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"  a worker did not end within {_STOP_SECONDS:.0f} s of SIGTERM and was killed")
    for member in members:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            continue
    tree.process.wait()

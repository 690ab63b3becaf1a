"""Executors whose part a test plays: real processes, connections and deaths, and no body.

The process only sleeps. What it says, the test says, at the other end of its real connection.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

from perago.runtime.executor import ExecutorKit
from perago.runtime.executor_process import ExecutorProcess
from perago.runtime.messages import FromExecutor, ToExecutor
from perago.runtime.shared_lease import AttemptCell
from perago.runtime.supervisor_link import SupervisorLink


class PlayedExecutor:
    """The executor's end: say what it says, hear what it is told, have it die."""

    def __init__(self, connection: Connection, nonce: bytes) -> None:
        self.connection = connection
        self.link = SupervisorLink(connection, nonce)
        self.process: PlayedProcess | None = None

    def say(self, *messages: FromExecutor, is_last: bool = False) -> None:
        self.link.tell(messages, is_last=is_last)

    def write(self, data: bytes) -> None:
        """Write what a body wrote."""
        view = memoryview(data)
        while view:
            view = view[os.write(self.connection.fileno(), view) :]

    def hear(self) -> ToExecutor:
        """What was said already: a test that expects too much fails and does not wait."""
        is_there = self.connection.poll(0) or not self.link._reader.is_between_frames
        assert is_there, "nothing was said"
        return self.link.hear()

    def die(self) -> None:
        """End the process, and wait until the kernel says so."""
        assert self.process is not None
        self.process.kill()
        self.process.join()

    def close(self) -> None:
        self.connection.close()


class PlayedProcess:
    """As much of `multiprocessing.Process` as an `ExecutorProcess` uses."""

    def __init__(self, played: PlayedExecutor, executors: PlayedExecutors) -> None:
        self._played = played
        self._error = executors.error
        self._group = 0 if executors.lead_groups else None
        self.joined: list[float | None] = []
        """How long it was waited for, each time."""
        self.is_closed = False
        self._sentinel, self._writing = os.pipe()

    def start(self) -> None:
        if self._error is not None:
            raise self._error
        self._child = subprocess.Popen(
            ["/bin/sleep", "600"], process_group=self._group, pass_fds=[self._writing]
        )
        os.close(self._writing)
        self._played.process = self

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def sentinel(self) -> int:
        return self._sentinel

    @property
    def exitcode(self) -> int | None:
        return self._child.poll()

    def is_alive(self) -> bool:
        return self._child.poll() is None

    def kill(self) -> None:
        self._child.kill()

    def join(self, timeout: float | None = None) -> None:
        self.joined.append(timeout)
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout)

    def close(self) -> None:
        self.is_closed = True
        os.close(self._sentinel)


class PlayedExecutors:
    """Stands for the context that makes processes, and keeps the other end of each."""

    def __init__(self) -> None:
        self.started: list[PlayedExecutor] = []
        self.error: OSError | None = None
        """What the operating system says to the next start."""
        self.lead_groups = True
        """Whether processes have made groups of their own yet."""
        self._theirs: Connection | None = None
        self.pipe: tuple[Connection, Connection] | None = None
        """Both ends that the last start made."""

    @property
    def last(self) -> PlayedExecutor:
        return self.started[-1]

    def start(self, number: int = 0) -> ExecutorProcess:
        return ExecutorProcess(number, cast(Any, self), no_kit, Path("unused"))

    # -- what an `ExecutorProcess` asks of its context

    def Pipe(self) -> tuple[Connection, Connection]:  # noqa: N802 - the name in multiprocessing
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        self._theirs = Connection(os.dup(theirs.fileno()))
        self.pipe = ours, theirs
        return self.pipe

    def RawValue(self, kind: type[AttemptCell], *values: Any) -> AttemptCell:  # noqa: N802
        return kind(*values)

    def Process(  # noqa: N802
        self, *, target: Callable[..., None], args: tuple[Any, ...], name: str
    ) -> PlayedProcess:
        assert self._theirs is not None
        played = PlayedExecutor(self._theirs, args[2])
        process = PlayedProcess(played, self)
        if self.error is None:
            self.started.append(played)
        return process


def no_kit(_number: int) -> ExecutorKit:
    raise AssertionError("no executor is built here")

"""The one watcher for a dead parent: a process that acts when this one ends, however it ends.

A process that is killed runs no code of its own any more, and the kernel's parent-death signal
reaches one process, not what that one started. So another process waits for the end of a pipe that
only this process holds open, and then acts.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Literal

_SHELL = ("/bin/sh", "-c")
_KILL_GROUP = "read _; kill -s KILL -- -{group}"
_KILL_OWN_GROUP = "trap '' INT TERM; read _; kill -s KILL 0"


class ParentWatch:
    """A program that gets the end of its standard input when this process ends, and then acts.

    It leads a session or a process group of its own, so that a kill of ours does not take it
    along. Without `environment` it gets this process's.

    A body may run in this process, and close every descriptor: what has the pipe's number then may
    be the body's file. So the pipe is known again before it is written to or closed.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        leads: Literal["session", "group"],
        environment: Mapping[str, str] | None = None,
        shows_errors: bool = False,
    ) -> None:
        reading, self._writing = os.pipe()
        self._pipe = os.fstat(self._writing)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=None if shows_errors else subprocess.DEVNULL,
                start_new_session=leads == "session",
                process_group=0 if leads == "group" else None,
                env=environment,
            )
        except BaseException:
            os.close(self._writing)
            raise
        finally:
            os.close(reading)

    @property
    def pid(self) -> int:
        """The watcher's process, which leads its group."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it still watches."""
        return self._process.poll() is None

    def tell(self, line: str) -> None:
        """Write a line to its standard input; `OSError` where it is gone."""
        content = f"{line}\n".encode()
        while content:
            if not self._has_pipe():
                raise OSError(errno.EBADF, "its pipe was closed in this process")
            content = content[os.write(self._writing, content) :]

    def act(self, seconds: float) -> None:
        """Have it act now, and wait for its end; kill it if it takes longer."""
        self._let_go()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def dismiss(self) -> None:
        """End it before it acts."""
        self._process.kill()
        self._process.wait()
        self._let_go()

    def _let_go(self) -> None:
        if self._has_pipe():
            os.close(self._writing)
        self._writing = -1

    def _has_pipe(self) -> bool:
        """Whether the descriptor is the pipe still."""
        try:
            return os.path.samestat(os.fstat(self._writing), self._pipe)
        except OSError:
            return False


class Guardian(ParentWatch):
    """Kills a process group that is there already. Dismiss it once the group is ended."""

    def __init__(self, process_group: int) -> None:
        # Without variables: nobody reads keys from a shell that only waits.
        super().__init__(
            (*_SHELL, _KILL_GROUP.format(group=process_group)), leads="session", environment={}
        )


class Tether(ParentWatch, AbstractContextManager["Tether"]):
    """A process group that lives no longer than this process; start in it what is to be tied.

    The watcher leads it. It is there before what it watches, so there is no moment to slip through.
    """

    def __init__(self) -> None:
        super().__init__((*_SHELL, _KILL_OWN_GROUP), leads="group", environment={})

    @property
    def group(self) -> int:
        """The process group to start in."""
        return self.pid

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.dismiss()

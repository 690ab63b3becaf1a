"""Ends processes when this one dies, however it dies."""

from __future__ import annotations

import os
import subprocess
from contextlib import AbstractContextManager
from types import TracebackType

_WATCH = "trap '' INT TERM; read _; kill -s KILL 0"


class Tether(AbstractContextManager["Tether"]):
    """A process group that lives no longer than this process; start in it what is to be tied.

    Its leader is a shell that waits for the end of a pipe which only this process holds open, and
    then kills its group. It is there before what it watches, so there is no moment to slip through.
    """

    def __init__(self) -> None:
        reading, self._writing = os.pipe()
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
        except BaseException:
            os.close(self._writing)
            raise
        finally:
            os.close(reading)

    @property
    def group(self) -> int:
        """The process group to start in."""
        return self._shell.pid

    def release(self) -> None:
        """Let go of the group without ending it."""
        self._shell.kill()
        self._shell.wait()
        os.close(self._writing)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

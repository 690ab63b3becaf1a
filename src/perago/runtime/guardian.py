"""Ends an executor's process group when the supervisor dies, however it dies.

The executor cannot do that itself: its body may hold the interpreter, and the kernel's parent-death
signal reaches the executor alone, not Spark's JVM or what the body forked. So a shell waits, in a
session of its own, for the end of a pipe that only the supervisor holds open.
"""

from __future__ import annotations

import os
import subprocess


class Guardian:
    """Watches over one process group. Dismiss it once the group is ended."""

    def __init__(self, process_group: int) -> None:
        reading, self._writing = os.pipe()
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", f"read _; kill -s KILL -- -{process_group}"],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(reading)

    def dismiss(self) -> None:
        """End the watch without ending the group."""
        self._shell.kill()
        self._shell.wait()
        os.close(self._writing)

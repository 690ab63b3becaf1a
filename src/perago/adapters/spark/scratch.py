"""The directories that processes with Spark work in, and leave behind when they are killed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

JVM_PREFIX = "spark-"
CONNECT_PREFIX = "connect-"


def sweep_scratch(scratch: Path) -> None:
    """Remove what processes that were killed have left."""
    for prefix in (JVM_PREFIX, CONNECT_PREFIX):
        for directory in scratch.glob(f"{prefix}*"):
            pid = directory.name.removeprefix(prefix)
            if pid.isdigit() and not _is_running(int(pid)):
                shutil.rmtree(directory, ignore_errors=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

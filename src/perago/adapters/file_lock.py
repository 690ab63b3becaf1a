"""One process at a time, by a lock that the operating system releases when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perago.adapters.progress import Progress

_PAUSE_SECONDS = 0.05


@contextmanager
def hold_file_lock(
    path: Path, *, progress: Progress | None = None, waiting: str = ""
) -> Iterator[None]:
    """Hold the lock for a `with` block; while another holds it, wait and say so in these words.

    The file stays: who removed it would leave two holders, each with a file of its own.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        began = time.monotonic()
        said = began
        while not _try_lock(descriptor):
            now = time.monotonic()
            if progress is not None and (said == began or now - said >= progress.every_seconds):
                progress.going_on(waiting, now - began)
                said = now
            time.sleep(_PAUSE_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

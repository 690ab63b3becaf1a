"""One supervisor per workspace root, and worker ids that tell whose root they ran on.

Invariant: while the lock is held no other supervisor sweeps, collects or fills the root. The
operating system releases it when the holder dies, however it dies. So whoever holds the lock
knows that every other worker id of this root is dead.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from perago.domain.errors import EnvironmentUnfitError, WorkspaceRootLockedError
from perago.domain.ids import WorkerId

_LOCK_NAME = ".perago-root.lock"
_ID_NAME = ".perago-root-id"


class WorkspaceRootLock:
    """Held from `acquire` until `release`, or for a `with` block."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._descriptor: int | None = None
        self._root_id = ""

    def acquire(self) -> None:
        """Take the lock, or raise `WorkspaceRootLockedError` naming the holder."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            self._descriptor = _lock(self._root / _LOCK_NAME)
            self._root_id = _read_or_make_id(self._root / _ID_NAME)
        except BlockingIOError as error:
            holder = (self._root / _LOCK_NAME).read_text("ascii", "replace").strip()
            raise WorkspaceRootLockedError(
                f"the workspace root {self._root} is held by process {holder or 'unknown'}",
                hint="wait for it, stop it, or set PERAGO_WORKSPACE_ROOT to another directory",
            ) from error
        except OSError as error:
            self.release()
            raise EnvironmentUnfitError(
                f"cannot use the workspace root {self._root}: {error.strerror}",
                hint="make it writable, free disk space, or set PERAGO_WORKSPACE_ROOT",
            ) from error

    def release(self) -> None:
        """Give the root back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def new_worker_id(self) -> WorkerId:
        """An id for this supervisor start, unique, that says which root it runs on."""
        return WorkerId(f"{self._root_id}-{uuid.uuid4().hex[:12]}")

    def ran_here(self, worker_id: WorkerId) -> bool:
        """Whether a worker id belongs to a supervisor of this root, now or earlier."""
        return worker_id.startswith(f"{self._root_id}-")

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def _lock(path: Path) -> int:
    """Lock a file and write this process's id into it, for whoever is refused."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _read_or_make_id(path: Path) -> str:
    """The root's own id, made once; replaced by rename so that a kill cannot leave half of it."""
    if path.exists():
        return path.read_text(encoding="ascii")
    root_id = f"perago-{uuid.uuid4().hex[:12]}"
    fresh = path.with_suffix(".new")
    fresh.write_text(root_id, encoding="ascii")
    fresh.replace(path)
    return root_id

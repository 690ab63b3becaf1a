"""One supervisor per workspace root, and worker ids that tell whose root they ran on.

Invariant: while the lock is held no other supervisor sweeps, collects or fills the root. The
operating system releases it when the holder dies, however it dies. So whoever holds the lock
knows that every other worker id of this root is dead.
"""

from __future__ import annotations

import logging
import os
import re
import uuid
from pathlib import Path
from types import TracebackType
from typing import Self

from perago.domain.errors import EnvironmentUnfitError, PeragoError, WorkspaceRootLockedError
from perago.domain.ids import WorkerId
from perago.system.directories import make_private_directories
from perago.system.file_lock import open_lock_file, read_holder, try_lock, write_holder
from perago.system.state_files import read_state_bytes, write_state

_log = logging.getLogger(__name__)

_LOCK_NAME = ".perago-root.lock"
_ID_NAME = ".perago-root-id"
_ID = re.compile(r"perago-[0-9a-f]{12}")
_ID_BYTES = 64


class WorkspaceRootLock:
    """Held from `acquire` until `release`, or for a `with` block."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._descriptor: int | None = None
        self._root_id = ""

    def acquire(self) -> None:
        """Take the lock, or raise `WorkspaceRootLockedError` naming the holder."""
        try:
            make_private_directories(self._root)
            self._descriptor = open_lock_file(self._root / _LOCK_NAME)
            if not try_lock(self._descriptor):
                raise self._held_by(read_holder(self._descriptor))
            self._write_holder()
            self._root_id = _read_or_make_id(self._root)
        except PeragoError:
            self.release()
            raise
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

    def _held_by(self, holder: int | None) -> WorkspaceRootLockedError:
        return WorkspaceRootLockedError(
            f"the workspace root {self._root} is held by process {holder or 'unknown'}",
            hint="wait for it, stop it, or set PERAGO_WORKSPACE_ROOT to another directory",
        )

    def _write_holder(self) -> None:
        """Say who holds it, for a process that is refused."""
        assert self._descriptor is not None
        if not write_holder(self._descriptor):
            raise EnvironmentUnfitError(
                f"{self._root / _LOCK_NAME} is no lock file of Perago's: it has content",
                hint="move it out of the way, or set PERAGO_WORKSPACE_ROOT to another directory",
            )

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


def _read_or_make_id(root: Path) -> str:
    """The root's own id, made once, and again where the file is damaged.

    With a new one earlier workers of the root are not known as such: they are left to their leases.
    """
    path = root / _ID_NAME
    root_id: str | None
    try:
        root_id = read_state_bytes(path, limit=_ID_BYTES).decode("ascii", "replace")
    except FileNotFoundError:
        root_id = None
    except ValueError as error:
        root_id = str(error)
    if root_id is not None:
        if _ID.fullmatch(root_id):
            return root_id
        _log.warning("%s is made anew: it holds no id of a workspace root", path)
    root_id = f"perago-{uuid.uuid4().hex[:12]}"
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        write_state(_ID_NAME, root_id.encode("ascii"), directory=directory)
    finally:
        os.close(directory)
    return root_id

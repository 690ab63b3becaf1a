"""Whether files fit on a disk, asked before the first of them is written."""

from __future__ import annotations

from pathlib import Path

from perago.domain.errors import InsufficientDiskError
from perago.ports import LocalDisk, WorkspaceStore


def ensure_room(
    needed: int, directory: Path, disk: LocalDisk, *, store: WorkspaceStore, what: str, hint: str
) -> None:
    """Refuse what does not fit, after the store gave back what it can spare."""
    store.make_room(directory, needed)
    free = disk.free_bytes
    if needed > free:
        raise InsufficientDiskError(
            f"{what} needs {needed} bytes and {directory} has {free} free", hint=hint
        )

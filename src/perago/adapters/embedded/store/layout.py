"""Where the store keeps what, below one home directory.

::

    store.sqlite3    branches, commits, trees, small contents
    objects/ab/cd…   larger contents, each named by its hash, never changed
    incoming/        one locked file for each write under way, and its temporary files
    *.lock           held while the home is set up, collected or verified

Invariant: a file below `objects` is whole from the moment it has its name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from perago.adapters.localfs.disk_errors import disk_errors, explain_unwritable
from perago.system.directories import make_private_directories
from perago.system.file_lock import open_lock_file, wait_for_lock

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Durability(StrEnum):
    """What an acknowledged change survives."""

    PROCESS = "process"
    """A kill -9 at any moment and a full disk. A power loss can take the newest changes."""

    POWER = "power"
    """A power loss too: every file and every transaction is flushed before it is acknowledged."""


@dataclass(frozen=True, slots=True)
class StoreHome:
    """The paths of one store."""

    root: Path

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.root / "store.sqlite3"

    @property
    def objects(self) -> Path:
        """The content-addressed files."""
        return self.root / "objects"

    @property
    def incoming(self) -> Path:
        """Writes that are under way."""
        return self.root / "incoming"

    def object_file(self, digest: bytes) -> Path:
        """Where a content of this digest lies when it is not in the database."""
        name = digest.hex()
        return self.objects / name[:2] / name[2:]

    def stored_files(self) -> list[bytes]:
        """The digests that have a file; whatever else lies there is not ours."""
        with disk_errors(self.objects, "list"):
            names = [path.parent.name + path.name for path in self.objects.glob("??/*")]
        return sorted(bytes.fromhex(name) for name in names if _DIGEST.fullmatch(name))

    def prepare(self) -> None:
        """Make the directories; raise `EnvironmentUnfitError` when this user cannot write here."""
        with disk_errors(self.root, "set up the store in"):
            try:
                for directory in (self.root, self.objects, self.incoming):
                    make_private_directories(directory)
            except FileExistsError as error:
                raise explain_unwritable(self.root, "it is not a directory") from error
        for place in (self.root, self.objects, self.incoming, self.database):
            if place.exists() and not os.access(place, os.W_OK):
                raise explain_unwritable(place, "it is read-only for this user")

    @contextmanager
    def locked(self, purpose: str) -> Iterator[None]:
        """Wait for, and hold, one of the home's locks; a dying process lets go of it."""
        self.prepare()
        with disk_errors(self.root, "lock"):
            descriptor = open_lock_file(self.root / f"{purpose}.lock")
        try:
            with disk_errors(self.root, "lock"):
                wait_for_lock(descriptor)
            yield
        finally:
            os.close(descriptor)

"""Where the cache keeps what, below one directory that belongs to one user.

::

    CACHEDIR.TAG      marks the directory as ours, and as not worth a backup
    change.lock       held by whoever changes the index or a name below `objects`
    index-….sqlite3   what is here; a new index gets a new name
    objects/ab/cd…    the contents, each named by its digest
    incoming/…        a locked directory for each intake under way, with its temporary files

Invariant: nobody but the owner can write here, a file below `objects` is whole from the moment it
has its name, and nothing is removed that stood here before the tag.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perago.adapters.localfs.disks import is_same_disk
from perago.system.directories import OwnDirectory, make_own_directory
from perago.system.file_lock import give_up_after, open_lock_file, wait_for_lock
from perago.system.tags import Tag

CACHE_TAG = Tag(
    purpose="the object cache",
    advice="choose another directory (PERAGO_CACHE_DIRECTORY)",
    file_name="CACHEDIR.TAG",
    text="Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Perago's object cache: all that is here can be downloaded again.\n",
    entries=frozenset({"objects", "incoming"}),
)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LARGEST_RESERVE_BYTES = 2**30
_RESERVE_SHARE = 20
_LOCK_SECONDS = 30.0


def is_digest(text: str) -> bool:
    """Whether this can be a digest. One that a server told us may be anything, even a path."""
    return _DIGEST.fullmatch(text) is not None


class CacheHome:
    """The paths of one cache, and its lock."""

    def __init__(self, root: Path, *, lock_seconds: float = _LOCK_SECONDS) -> None:
        self.root = root.absolute()
        self.objects = self.root / "objects"
        self.incoming = self.root / "incoming"
        self._objects = f"{self.objects}{os.sep}"
        self._lock = self.root / "change.lock"
        self._lock_seconds = lock_seconds
        self._is_fit = False

    def object_file(self, digest: str) -> str:
        """Where the content of this digest lies; text, for it is asked for by the thousand."""
        return f"{self._objects}{digest[:2]}{os.sep}{digest[2:]}"

    def index_files(self) -> list[Path]:
        """Every index that is here: one, but before the first use and after a crash."""
        return sorted(self.root.glob("index-*.sqlite3"))

    def spare_bytes(self) -> int:
        """What the cache may still take of the disk, whose last part belongs to the workspaces.

        Below zero when others have taken of that part, and the cache should give way.
        """
        found = os.statvfs(self.incoming)
        reserve = min(_LARGEST_RESERVE_BYTES, found.f_blocks * found.f_frsize // _RESERVE_SHARE)
        return found.f_bavail * found.f_frsize - reserve

    def shares_disk(self, directory: Path) -> bool:
        """Whether what is written to a directory takes room from the cache."""
        return self.root.exists() and is_same_disk(self.root, directory)

    def ensure_fit(self) -> None:
        """Make the directories, and refuse those of others, once per process."""
        if not self._is_fit:
            self.prepare()
            self._is_fit = True

    def prepare(self) -> None:
        """Make the directories; raise `EnvironmentUnfitError` where it would not be safe."""
        with self.opened() as own:
            for name in CACHE_TAG.entries or ():
                own.below(name).close()

    def opened(self) -> OwnDirectory:
        """The directory, open; made if it is missing."""
        # A link may lead there: the tag tells whether it leads to a cache.
        return make_own_directory(self.root, CACHE_TAG, may_be_link=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait for the right to change the cache; a dying process gives it back."""
        descriptor = self._try_lock()
        while descriptor is None:
            descriptor = self._try_lock()
        try:
            yield
        finally:
            os.close(descriptor)

    def _try_lock(self) -> int | None:
        """The locked descriptor, or None if somebody removed the file that it locks."""
        self.prepare()
        descriptor = open_lock_file(self._lock)
        try:
            wait_for_lock(
                descriptor,
                give_up_after(
                    self._lock_seconds, "another process does not release the cache's lock"
                ),
            )
            if is_still_at(self._lock, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def remove_entry(self, path: Path) -> None:
        """Remove what is at an entry's place: a file, or something that should not be there."""
        with (
            self.opened() as own,
            own.below("objects") as objects,
            objects.below(path.parent.name) as shelf,
        ):
            shelf.remove_tree(path.name)


def is_still_at(path: Path, descriptor: int) -> bool:
    """Whether an open file or directory still has this name."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False

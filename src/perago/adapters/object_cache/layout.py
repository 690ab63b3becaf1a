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

import fcntl
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perago.adapters.localfs.disks import is_same_disk
from perago.domain.errors import EnvironmentUnfitError

_TAG = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Perago's object cache: all that is here can be downloaded again.\n"
)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LARGEST_RESERVE_BYTES = 2**30
_RESERVE_SHARE = 20
_LOCK_SECONDS = 30.0
_LONGEST_PAUSE_SECONDS = 0.05


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
        self._tag = self.root / "CACHEDIR.TAG"
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
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise self._unfit("it, or a parent of it, is not a directory") from error
        found = self.root.stat()
        if found.st_uid != os.geteuid():
            raise self._unfit(f"it belongs to user {found.st_uid}, not to the one who runs this")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise self._unfit("other users can write to it", hint=f"chmod go-w {self.root}")
        # Listed before the tag is looked for: whoever sets up a cache at this moment makes the
        # tag first.
        taken = {"objects", "incoming"}.intersection(path.name for path in self.root.iterdir())
        if not self._tag.exists():
            if taken:
                raise self._unfit(f"it has a directory {taken.pop()!r} that is not a cache's")
            self._tag.write_text(_TAG, encoding="ascii")
        for directory in (self.objects, self.incoming):
            directory.mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait for the right to change the cache; a dying process gives it back."""
        deadline = time.monotonic() + self._lock_seconds
        descriptor = self._try_lock(deadline)
        while descriptor is None:
            descriptor = self._try_lock(deadline)
        try:
            yield
        finally:
            os.close(descriptor)

    def _try_lock(self, deadline: float) -> int | None:
        """The locked descriptor, or None if somebody removed the file that it locks."""
        self.prepare()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._lock, flags, 0o600)
        try:
            _wait_for(descriptor, deadline)
            if is_still_at(self._lock, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def _unfit(self, reason: str, hint: str | None = None) -> EnvironmentUnfitError:
        return EnvironmentUnfitError(
            f"the object cache cannot be in {self.root}: {reason}",
            hint=hint or "choose another directory (PERAGO_CACHE_DIRECTORY)",
        )


def remove_entry(path: Path) -> None:
    """Remove what is at an entry's place, be it a file or something that should not be there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def is_still_at(path: Path, descriptor: int) -> bool:
    """Whether an open file or directory still has this name."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _wait_for(descriptor: int, deadline: float) -> None:
    # Not a blocking call: a process that was suspended with the lock must not suspend the others.
    pause = 0.001
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise TimeoutError("another process does not release the cache's lock") from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        else:
            return

"""The cache itself: finds, delivers and takes in contents.

Invariants: what is delivered is a private copy whose digest was checked on the way. A cache that
cannot work (a full or read-only disk, a lock that is not released, a damaged index) says so in the
log and acts as if it were empty; only a directory that is not safe to use is an error.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from blake3 import blake3

from perago.adapters.localfs.copying import (
    OnBytes,
    copy_file,
    create_target,
    open_source,
    write_whole,
)
from perago.adapters.localfs.disks import free_bytes
from perago.adapters.object_cache.index import Index
from perago.adapters.object_cache.intake import Intake, identity_key
from perago.adapters.object_cache.layout import CacheHome, is_digest, is_still_at
from perago.adapters.object_cache.scratch import Scratch, sweep
from perago.adapters.object_cache.settling import Settling
from perago.domain.errors import EnvironmentUnfitError, PeragoError
from perago.domain.ids import Digest

_log = logging.getLogger(__name__)

# Read at once: for so little, a clone and chunks cost more than they save.
_SMALL_BYTES = 64 * 1024
_UNREADABLE = "it cannot be read"
_MISMATCH = "it does not match its digest"
_NO_DESCRIPTORS = {errno.EMFILE, errno.ENFILE}


class ObjectCache:
    """Contents that this host has seen, at most `max_bytes` of disk.

    Nothing is touched before the first use. Safe for many threads and processes; it can be used
    again after `close`, and sent to another process.

    An *identity* is any text that names stored content which never changes.
    """

    def __init__(self, directory: Path, *, max_bytes: int) -> None:
        self._home = CacheHome(directory)
        self._max_bytes = max_bytes
        self._index = Index(self._home)
        self._settling = Settling(self._home, max_bytes)
        self._guard = threading.Lock()
        self._used: dict[Digest, None] = {}

    def __reduce__(self) -> tuple[Callable[[Path, int], ObjectCache], tuple[Path, int]]:
        return _restore, (self._home.root, self._max_bytes)

    def find(self, identities: Collection[str]) -> dict[str, Digest]:
        """The digests of those identities whose content should be here.

        It may be gone by the time it is wanted: `deliver` tells.
        """
        names = {identity_key(identity): identity for identity in identities}
        try:
            self._home.ensure_fit()
            found = self._index.find(list(names))
        except OSError as error:
            self._warn("is not read", error)
            return {}
        # A damaged index may answer what nobody asked.
        return {names[key]: digest for key, digest in found.items() if key in names}

    def deliver(self, digest: Digest, size: int, target: str | Path, on_bytes: OnBytes) -> bool:
        """Write a content as a new, private file; False, and no file, if it is not here.

        An entry that is not what its name says is removed, after `on_bytes` may have heard of
        some of its bytes. Raises `OSError` when the target cannot be written.
        """
        source = self._open(digest)
        if source is None:
            return False
        try:
            fault = _copy(source, (bytes.fromhex(digest), size), target, on_bytes)
            if fault is not None:
                self._drop(digest, fault, source)
                return False
        finally:
            os.close(source)
        with self._guard:
            self._used.pop(digest, None)
            self._used[digest] = None
        return True

    @contextmanager
    def intake(self, *, keep_free: int = 0, directory: Path | None = None) -> Iterator[Intake]:
        """Take in what a checkout downloads; it is registered when the block is left.

        `keep_free` is what the checkout will write to `directory`. Where that is on this disk, so
        much is left free, less what `Intake.note_written` hears of.
        """
        intake = Intake(self._home, self._max_bytes, keep_free=keep_free, directory=directory)
        try:
            yield intake
        finally:
            self._settle(intake)

    def give_way(self, directory: Path, needed: int) -> None:
        """Evict, least recently used first, until so many bytes are free where a directory is.

        Does nothing where there is room, or on another disk than the cache's. Never fails.
        """
        try:
            if not self._home.shares_disk(directory) or free_bytes(directory) >= needed:
                return
            self._home.ensure_fit()
            sweep(self._home)
            # Measured again, for an entry may have shared its blocks with a file that stays.
            while (lacking := needed - free_bytes(directory)) > 0 and self._evict(lacking):
                _log.info("the object cache gave way: %d bytes were lacking", lacking)
        except (OSError, PeragoError) as error:
            self._warn("gave no room", error)

    def usage(self) -> tuple[int, int]:
        """How many entries there are and how many bytes of disk they take.

        Raises `EnvironmentUnfitError` when the cache cannot work.
        """
        try:
            with self._index.changing() as change:
                return change.totals()
        except OSError as error:
            raise EnvironmentUnfitError(
                f"the object cache in {self._home.root} cannot be used: {error}",
                hint="make it writable, free some space, or choose another directory "
                "(PERAGO_CACHE_DIRECTORY)",
            ) from error

    def close(self) -> None:
        """Note what was used, and let go of the files."""
        self._settle(Intake(self._home, self._max_bytes))
        self._index.close()

    def _open(self, digest: Digest) -> int | None:
        """Open an entry; what cannot be one is removed."""
        if not is_digest(digest):
            return None
        try:
            self._home.ensure_fit()
        except OSError:
            return None  # `find` and `Intake.begin` tell of it, once and not for every content
        try:
            return open_source(self._home.object_file(digest))
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in _NO_DESCRIPTORS:
                self._drop(digest, f"it cannot be read ({error.strerror or error})", None)
            return None

    def _settle(self, intake: Intake) -> None:
        intake.finish()
        with self._guard:
            used, self._used = self._used, {}
        if not (intake.identities or used or intake.lacked_room):
            intake.clean_up()
            return
        try:
            try:
                with self._index.changing() as change:
                    self._settling.settle(change, intake, used)
            finally:
                intake.clean_up()
            sweep(self._home)
        except (OSError, PeragoError) as error:
            self._warn("was not updated", error)

    def _evict(self, lacking: int) -> bool:
        scratch = Scratch(self._home)
        try:
            with self._index.changing() as change:
                return self._settling.give_way(change, scratch, lacking)
        finally:
            scratch.remove()

    def _drop(self, digest: Digest, fault: str, source: int | None) -> None:
        """Remove a bad entry, unless somebody has put another file in its place."""
        _log.warning("the cached content %s is removed: %s", digest, fault)
        entry = Path(self._home.object_file(digest))
        try:
            with self._index.changing() as change:
                if source is None or is_still_at(entry, source):
                    self._home.remove_entry(entry)
                    change.forget([digest])
        except (OSError, PeragoError) as error:
            self._warn("was not updated", error)

    def _warn(self, what: str, error: Exception) -> None:
        _log.warning("the object cache in %s %s: %s", self._home.root, what, error)


def _restore(directory: Path, max_bytes: int) -> ObjectCache:
    return ObjectCache(directory, max_bytes=max_bytes)


def _copy(
    source: int, expected: tuple[bytes, int], target: str | Path, on_bytes: OnBytes
) -> str | None:
    """Copy an entry, or say what is wrong with it and leave no file."""
    if os.fstat(source).st_size != expected[1]:
        return "its file has the wrong length"
    if expected[1] <= _SMALL_BYTES:
        return _copy_small(source, expected, target, on_bytes)
    descriptor = create_target(target)
    is_right = False
    try:
        try:
            is_right = copy_file(source, descriptor, on_bytes, source_may_change=False) == expected
        finally:
            os.close(descriptor)
    except OSError as error:
        # Should it be the target's disk that fails, the download that follows will tell.
        if error.errno != errno.EIO:
            raise
        return _UNREADABLE
    finally:
        if not is_right:
            Path(target).unlink(missing_ok=True)
    return None if is_right else _MISMATCH


def _copy_small(
    source: int, expected: tuple[bytes, int], target: str | Path, on_bytes: OnBytes
) -> str | None:
    try:
        content = os.read(source, expected[1])
    except OSError:
        return _UNREADABLE
    if (blake3(content).digest(), len(content)) != expected:
        return _MISMATCH
    descriptor = create_target(target)
    try:
        write_whole(descriptor, content)
        on_bytes(len(content))
    except BaseException:
        Path(target).unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
    return None

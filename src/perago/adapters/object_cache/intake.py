"""What one checkout adds to the cache: temporary files until the checkout is over.

Invariant: nothing here ever fails a checkout. What cannot be cached is not, and is said once.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

from perago.adapters.localfs.copying import create_target, write_whole
from perago.adapters.object_cache.layout import CacheHome, is_digest
from perago.adapters.object_cache.scratch import Scratch
from perago.domain.ids import Digest
from perago.domain.workspace import disk_use

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_log = logging.getLogger(__name__)


def identity_key(identity: str) -> bytes:
    """What the index knows an identity by: short, and it tells nobody a path."""
    return blake3(identity.encode("utf-8", "surrogatepass")).digest()


class Intake:
    """The additions of one checkout; may be used by many threads. Made by `ObjectCache.intake`.

    `keep_free` is what the checkout itself will write to `directory`: room that the cache leaves.
    """

    def __init__(
        self, home: CacheHome, max_bytes: int, *, keep_free: int = 0, directory: Path | None = None
    ) -> None:
        self._home = home
        self._max_bytes = max_bytes
        self._keep_free = keep_free
        self._directory = directory
        self._shares_disk: bool | None = None
        self._guard = threading.Lock()
        self._scratch: Scratch | None = None
        self._reserved = 0
        self._is_open = True
        self._open_writers: set[CacheWriter] = set()
        self.files: dict[Digest, tuple[Path, int]] = {}
        """The temporary file and the size of each content that was kept."""
        self.identities: dict[bytes, Digest] = {}
        self.lacked_room = False
        """Whether something was not taken in because the disk was nearly full."""

    def begin(self, expected_size: int) -> CacheWriter | None:
        """A writer for a content of this size, or None if it cannot or need not be cached."""
        with self._guard:
            needed = disk_use(expected_size)
            # One checkout cannot use more than the whole cache, so more need not be set aside.
            if not self._is_open or self._reserved + needed > self._max_bytes:
                return None
            try:
                self._home.ensure_fit()
                scratch = self._make_scratch()
                if self._spare_bytes() < needed:
                    self.lacked_room = True
                    return None
                writer = CacheWriter(self, scratch.new_name(), expected_size)
            except OSError as error:
                self._stop(error)
                return None
            self._reserved += needed
            self._open_writers.add(writer)
            return writer

    def note_written(self, size: int) -> None:
        """The checkout has written a file of this size: so much less must stay free."""
        with self._guard:
            self._keep_free -= disk_use(size)

    def accept(self, writer: CacheWriter, identity: str, digest: Digest) -> None:
        """Take over the file of a writer."""
        with self._guard:
            self._open_writers.discard(writer)
            self.identities[identity_key(identity)] = digest
            if digest not in self.files:
                self.files[digest] = writer.path, writer.written
                return
            self._reserved -= disk_use(writer.expected_size)
        with suppress(OSError):
            writer.path.unlink()

    def release(self, writer: CacheWriter, error: OSError | None) -> None:
        """Forget a writer whose file is gone; after an error no further one begins."""
        with self._guard:
            self._open_writers.discard(writer)
            self._reserved -= disk_use(writer.expected_size)
            if error is not None:
                self._stop(error)

    def finish(self) -> None:
        """Begin nothing more, and discard what was neither kept nor discarded."""
        with self._guard:
            self._is_open = False
            left = list(self._open_writers)
        for writer in left:
            writer.discard()

    def scratch(self) -> Scratch:
        """The directory of the temporary files."""
        with self._guard:
            return self._make_scratch()

    def clean_up(self) -> None:
        """Remove the temporary files."""
        with self._guard:
            if self._scratch is not None:
                self._scratch.remove()
                self._scratch = None

    def _spare_bytes(self) -> int:
        """What the disk has left when all that is under way is written."""
        if self._shares_disk is None:
            self._shares_disk = self._directory is not None and self._home.shares_disk(
                self._directory
            )
        # What a writer has got lies in the workspace too, where it still counts as missing.
        times = 2 if self._shares_disk else 1
        promised = sum(
            writer.expected_size - times * writer.written for writer in self._open_writers
        )
        keep_free = self._keep_free if self._shares_disk else 0
        return self._home.spare_bytes() - promised - keep_free

    def _make_scratch(self) -> Scratch:
        if self._scratch is None:
            self._scratch = Scratch(self._home)
        return self._scratch

    def _stop(self, error: OSError) -> None:
        if self._is_open:
            self._is_open = False
            _log.warning("nothing more of this checkout is cached: %s", error)


class CacheWriter:
    """Takes one content, from one thread; ends with `keep` or `discard`."""

    def __init__(self, intake: Intake, path: Path, expected_size: int) -> None:
        self.path = path
        self.expected_size = expected_size
        self.written = 0
        self._intake = intake
        # An intake that ends closes the file under a thread that may still write to it; without
        # the lock, the bytes could go to another file that got the same number.
        self._guard = threading.Lock()
        self._descriptor: int | None = create_target(path, 0o400)

    def write(self, chunk: ReadableBuffer) -> None:
        """Add bytes; what fails, or is more than was expected, ends the writer quietly."""
        view = memoryview(chunk).cast("B")
        with self._guard:
            if self._descriptor is None:
                return
            self.written += view.nbytes
            if self.written > self.expected_size:
                self._end(None)
                return
            try:
                write_whole(self._descriptor, view)
            except OSError as error:
                self._end(error)

    def keep(self, identity: str, digest: Digest) -> None:
        """This was the content of `identity`; it will be an entry when the intake ends."""
        if not is_digest(digest):
            raise ValueError(f"{digest!r} is not a digest")
        with self._guard:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is None:
                return
            try:
                os.close(descriptor)
            except OSError as error:  # a network share may tell of a failed write only here
                self._end(error)
            else:
                self._intake.accept(self, identity, digest)

    def discard(self) -> None:
        """Forget it; does nothing after `keep`."""
        with self._guard:
            if self._descriptor is not None:
                self._end(None)

    def _end(self, error: OSError | None) -> None:
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None
        with suppress(OSError):
            self.path.unlink()
        self._intake.release(self, error)

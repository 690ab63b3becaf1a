"""The end of a checkout: what was kept becomes entries, and what is too much goes.

Invariant: in whatever moment the process dies, no object file lacks its row. So rows come before
files when entries are added, and go after them when entries are removed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from perago.adapters.object_cache.index import Change
from perago.adapters.object_cache.intake import Intake
from perago.adapters.object_cache.layout import CacheHome, is_digest
from perago.adapters.object_cache.scratch import Scratch
from perago.domain.ids import Digest
from perago.domain.workspace import disk_use

_log = logging.getLogger(__name__)

_KEPT_PERCENT = 90
"""How full an eviction leaves the cache, so that not every checkout has to evict."""


class Settling:
    """Settles intakes in one cache; the cache's lock is held."""

    def __init__(self, home: CacheHome, max_bytes: int) -> None:
        self._home = home
        self._max_bytes = max_bytes

    def settle(self, change: Change, intake: Intake, used: Collection[Digest]) -> None:
        """Register what an intake kept, note what was used, and evict what is too much."""
        entries = {digest: disk_use(size) for digest, (_, size) in intake.files.items()}
        change.record(entries, intake.identities, used)
        gone = [
            digest for digest, (path, _) in intake.files.items() if not self._place(digest, path)
        ]
        gone.extend(self._evict(change, intake))
        if gone:
            change.forget(gone)

    def give_way(self, change: Change, scratch: Scratch, lacking: int) -> bool:
        """Evict entries that take at least so much; False if there was none."""
        gone: list[Digest] = []
        for digest, disk in change.from_oldest():
            if lacking <= 0:
                break
            self._take_away(digest, scratch)
            lacking -= disk
            gone.append(digest)
        change.forget(gone)
        return bool(gone)

    def _place(self, digest: Digest, temporary: Path) -> bool:
        """Give a file its name, instead of whatever had it; False if that is impossible."""
        target = Path(self._home.object_file(digest))
        try:
            try:
                temporary.replace(target)
            except OSError:  # its directory is missing, or something that is no file is there
                target.parent.mkdir(mode=0o700, exist_ok=True)
                self._home.remove_entry(target)
                temporary.replace(target)
        except OSError as error:
            _log.warning("the content %s is not cached: %s", digest, error)
            return False
        return True

    def _evict(self, change: Change, intake: Intake) -> Iterator[Digest]:
        """Take entries away, least recently used first, and say which.

        A disk that is nearly full is as good a reason as a cache that is.
        """
        _entries, total = change.totals()
        limit = min(self._max_bytes, total + min(0, self._home.spare_bytes()))
        if total <= limit and not intake.lacked_room:
            return
        low = limit * _KEPT_PERCENT // 100
        scratch = intake.scratch()
        for digest, disk in change.from_oldest():
            if total <= low or (total <= limit and digest in intake.files):
                return
            self._take_away(digest, scratch)
            total -= disk
            yield digest

    def _take_away(self, digest: Digest, scratch: Scratch) -> None:
        # It only moves: a large file takes long to remove, and by then the lock is free.
        if is_digest(digest):
            with suppress(FileNotFoundError):
                Path(self._home.object_file(digest)).rename(scratch.new_name())

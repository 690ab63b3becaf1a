"""A stat index like git's: which files were surely not touched since they were checked out.

Invariant: a file is taken for unchanged without being read only if its size, mtime, ctime and
inode are the remembered ones *and* its ctime is older than the moment of remembering on the file
system's own clock. A change after that moment gets a ctime at or after it, so it cannot hide; a
file from that very tick ("racy", in git's words) is hashed. Where the file system does not tell of
all changes, everything is hashed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perago.domain.ids import Digest, RelativePath

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class _Stamp:
    """What `stat` says of a file that was not touched."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, stat: os.stat_result) -> _Stamp:
        return cls(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


class TreeIndex:
    """The remembered stamps and digests of one directory."""

    def __init__(self, *, trusts_stamps: bool = True) -> None:
        self._trusts_stamps = trusts_stamps
        self._entries: dict[str, tuple[_Stamp, Digest]] = {}
        self._taken_at_ns = 0

    def remember(
        self, directory: Path, digests: Mapping[RelativePath, Digest], probe: Path
    ) -> None:
        """Take the stamps of files that were just written.

        `probe` is a file name on the same file system, used to read that system's clock.
        """
        if not self._trusts_stamps:
            return
        base = f"{directory}{os.sep}"
        self._entries = {
            path: (_Stamp.of(os.lstat(base + path)), digest) for path, digest in digests.items()
        }
        os.close(os.open(probe, _NEW_FILE, 0o600))
        self._taken_at_ns = probe.lstat().st_ctime_ns
        probe.unlink()

    def digest_if_untouched(self, path: str, stat: os.stat_result) -> Digest | None:
        """The digest of a file that cannot have changed, or None: read it."""
        entry = self._entries.get(path)
        if entry is None:
            return None
        stamp, digest = entry
        if stamp.ctime_ns >= self._taken_at_ns or stamp != _Stamp.of(stat):
            return None
        return digest

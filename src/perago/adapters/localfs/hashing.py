"""Perago's content hash of local files, in flat memory."""

from __future__ import annotations

from pathlib import Path

from blake3 import blake3

from perago.domain.ids import Digest

_CHUNK_BYTES = 1 << 20


def hash_file(path: Path) -> Digest:
    """The BLAKE3 digest of a file's content.

    Read in chunks rather than mapped: a file that shrinks under a mapping kills the process.
    """
    hasher = blake3()
    with path.open("rb", buffering=0) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            hasher.update(chunk)
    return Digest(hasher.hexdigest())

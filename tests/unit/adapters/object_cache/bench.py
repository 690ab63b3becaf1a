"""A cache on a directory of its own, and what a test wants to know of it."""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

from blake3 import blake3

from perago.adapters.object_cache import CacheWriter, Intake, ObjectCache
from perago.domain.ids import Digest
from perago.domain.workspace import disk_use

BLOCK = disk_use(1)
PLENTY = 1 << 30


def digest_of(content: bytes) -> Digest:
    return Digest(blake3(content).hexdigest())


def begin(intake: Intake, size: int) -> CacheWriter:
    writer = intake.begin(size)
    assert writer is not None
    return writer


def keep(intake: Intake, identity: str, content: bytes) -> bool:
    """Whether it was taken in."""
    writer = intake.begin(len(content))
    if writer is None:
        return False
    for start in range(0, len(content), 3000):
        writer.write(content[start : start + 3000])
    writer.keep(identity, digest_of(content))
    return True


def ignore(_count: int) -> None:
    """Hears of bytes, and does nothing."""


class Bench:
    """One process's view of a cache."""

    def __init__(self, directory: Path, files: Path, max_bytes: int = PLENTY) -> None:
        self.directory = directory
        self.files = files
        self.files.mkdir(exist_ok=True)
        self.cache = ObjectCache(directory, max_bytes=max_bytes)
        self._number = 0

    def fill(self, contents: Mapping[str, bytes]) -> None:
        """Take in contents by their identities, in one checkout."""
        with self.cache.intake() as intake:
            for identity, content in contents.items():
                assert keep(intake, identity, content)

    def deliver(self, content: bytes) -> bool:
        """Whether the cache has it; checks what it delivers, and that a miss leaves no file."""
        self._number += 1
        target = self.files / str(self._number)
        if not self.cache.deliver(digest_of(content), len(content), target, ignore):
            assert not target.exists()
            return False
        assert target.read_bytes() == content
        target.unlink()
        return True

    def entry(self, content: bytes) -> Path:
        """The file of an entry."""
        digest = digest_of(content)
        return self.directory / "objects" / digest[:2] / digest[2:]

    def debris(self) -> list[str]:
        return sorted(path.name for path in (self.directory / "incoming").rglob("*"))

    def check(self, max_bytes: int | None = None) -> None:
        """No file lacks its row or its content, and all together are within bounds."""
        files = object_files(self.directory)
        rows = indexed(self.directory)
        assert set(files) <= set(rows)
        for digest, path in files.items():
            assert digest_of(path.read_bytes()) == digest
            assert disk_use(path.stat().st_size) == rows[digest]
        assert self.cache.usage() == (len(rows), sum(rows.values()))
        assert max_bytes is None or sum(rows.values()) <= max_bytes


def object_files(directory: Path) -> dict[str, Path]:
    return {path.parent.name + path.name: path for path in directory.glob("objects/??/*")}


def index_file(directory: Path) -> Path:
    (path,) = directory.glob("index-*.sqlite3")
    return path


def indexed(directory: Path) -> dict[str, int]:
    """Digest and disk use of each row."""
    with closing(sqlite3.connect(index_file(directory))) as connection:
        rows: Iterable[tuple[bytes, int]] = connection.execute("SELECT digest, disk FROM entries")
        return {digest.hex(): disk for digest, disk in rows}

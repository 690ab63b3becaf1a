"""Takes one large file through the store and prints by how many KiB that raised the peak memory.

A program of its own, because a process's peak never goes down again.
"""

import os
import resource
import sys
import tempfile
from pathlib import Path

from blake3 import blake3

from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.adapters.localfs.clock import SystemClock
from perago.domain.ids import BranchName, Digest, ObjectPath, RelativePath, RepositoryName
from perago.ports import LocalFile

REPOSITORY, MAIN = RepositoryName("repo"), BranchName("main")


def main(root: Path, megabytes: int) -> int:
    with EmbeddedWorkspaceStore(root / "home", SystemClock()) as store:
        store.create_repository(REPOSITORY)
        round_trip(store, root / "warm-up", 1)
        before = peak_kib()
        round_trip(store, root / "large", megabytes)
        return peak_kib() - before


def round_trip(store: EmbeddedWorkspaceStore, place: Path, megabytes: int) -> None:
    """Import, stream and check out a file with holes."""
    place.mkdir()
    source = place / "source"
    with source.open("wb") as stream:
        for start in range(0, megabytes, 64):
            stream.seek(start << 20)
            stream.write(os.urandom(4096))
        stream.truncate(megabytes << 20)
    path = ObjectPath(place.name)
    file = LocalFile(path=source, digest=hash_of(source), size=source.stat().st_size)
    commit = store.commit_changes(
        REPOSITORY,
        MAIN,
        writes={path: file},
        deletes=(),
        message="large",
        metadata={},
        on_transfer=lambda _objects, _size: None,
    )
    source.unlink()
    hasher = blake3()
    with store.open_object(REPOSITORY, commit.id, path) as stream:
        while chunk := stream.read(1 << 20):
            hasher.update(chunk)
    assert hasher.hexdigest() == file.digest
    (entry,) = store.list_objects(REPOSITORY, commit.id, path)
    out = place / "out"
    out.mkdir()
    files = {RelativePath("copy"): entry}
    store.checkout(REPOSITORY, commit.id, files, out, lambda _objects, _size: None)
    assert hash_of(out / "copy") == file.digest
    assert store.verify().is_clean
    (out / "copy").unlink()


def hash_of(path: Path) -> Digest:
    hasher = blake3()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            hasher.update(chunk)
    return Digest(hasher.hexdigest())


def peak_kib() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "linux" else peak // 1024


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="perago-footprint-") as name:
        print(main(Path(name), int(sys.argv[1])))  # noqa: T201

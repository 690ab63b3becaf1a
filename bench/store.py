"""The embedded store beside `cp -r`, on the same files, in the same run, taking turns.

Import is a scan of the directory (every file hashed) and one commit; checkout is a listing and
the files. Each import goes into a fresh home, so nothing is deduplicated. The ratio is that of
the medians.
"""

import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.adapters.localfs.clock import SystemClock
from perago.adapters.localfs.scan import scan_directory
from perago.adapters.localfs.tree_index import TreeIndex
from perago.domain.ids import BranchName, ObjectPath, RelativePath, RepositoryName
from perago.domain.publication import StagedWorkspace
from perago.ports import LocalFile

CP = shutil.which("cp") or "cp"
ROUNDS = 5
PUBLICATIONS = 30
MIB = 1024 * 1024
SETS = {"1000 x 10 KiB": (1000, 10 * 1024), "40 x 25 MiB": (40, 25 * MIB)}
REPOSITORY, MAIN = RepositoryName("bench"), BranchName("main")


@dataclass(slots=True)
class Timings:
    """Seconds of each kind of work, one list per kind; each writes so many bytes."""

    size: int
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, kind: str, work: Callable[[], object]) -> None:
        """Time one piece of work, on a level field."""
        level_field(self.size)
        start = time.perf_counter()
        work()
        self.seconds.setdefault(kind, []).append(time.perf_counter() - start)

    def median(self, kind: str) -> float:
        """The median of one kind, in seconds."""
        return statistics.median(self.seconds[kind])


def level_field(size: int) -> None:
    """Make the next piece of work, which writes so many bytes, like any other.

    Nothing of earlier pieces is left to be written to disk. And as much memory as it needs was
    just in use: a virtual machine gives free memory back to its host, and who touches it first
    again, for a page cache or anything else, pays several times the price of a copy.
    """
    os.sync()
    subprocess.run([sys.executable, "-c", f"b'x' * {2 * size}"], check=True)


def main() -> None:
    """Run everything and print a table."""
    print(f"{'':16}{'cp -r':>10}{'import':>10}{'ratio':>7}{'checkout':>10}{'ratio':>7}")
    with tempfile.TemporaryDirectory(prefix="perago-bench-") as name:
        for title, (count, size) in SETS.items():
            place = Path(name, title.replace(" ", ""))
            make_files(place / "source", count, size)
            compare_with_cp(title, Timings(count * size), place)
            shutil.rmtree(place)
        publish(make_files(Path(name, "publish"), 1000, 10 * 1024), Path(name))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1024 if sys.platform == "linux" else MIB
    print(f"peak memory of this process: {peak / unit:.0f} MiB")


def make_files(directory: Path, count: int, size: int) -> Path:
    """Write random files, the same in every run."""
    directory.mkdir(parents=True)
    numbers = random.Random(0)
    for index in range(count):
        with (directory / f"part-{index:05}").open("wb") as stream:
            for start in range(0, size, MIB):
                stream.write(numbers.randbytes(min(MIB, size - start)))
    return directory


def compare_with_cp(title: str, timings: Timings, place: Path) -> None:
    """Copy, import, copy and check out in turn, and print one line."""
    source, copy, home, target = (place / n for n in ("source", "copy", "home", "target"))
    for _ in range(ROUNDS):
        with EmbeddedWorkspaceStore(home, SystemClock()) as store:
            store.create_repository(REPOSITORY)
            for kind, work in (
                ("import", partial(import_directory, store, source)),
                ("checkout", partial(checkout, store, target)),
            ):
                timings.measure("cp", partial(subprocess.run, [CP, "-r", source, copy], check=True))
                shutil.rmtree(copy)
                target.mkdir()
                timings.measure(kind, work)
                shutil.rmtree(target)
        shutil.rmtree(home)
    cp = timings.median("cp")
    cells = [f"{title:16}{cp * 1000:>7.0f} ms"]
    for kind in ("import", "checkout"):
        median = timings.median(kind)
        cells.append(f"{median * 1000:>7.0f} ms{median / cp:>7.2f}")
    print("".join(cells))


def import_directory(store: EmbeddedWorkspaceStore, source: Path) -> None:
    """Scan, hash and commit a directory."""
    files = scan_directory(source, TreeIndex()).files
    commit(store, MAIN, {ObjectPath(path): file for path, file in files.items()})


def commit(
    store: EmbeddedWorkspaceStore, branch: BranchName, writes: dict[ObjectPath, LocalFile]
) -> StagedWorkspace:
    """Commit files to a branch."""
    made = store.commit_changes(
        REPOSITORY,
        branch,
        writes=writes,
        deletes=(),
        message="bench",
        metadata={},
        on_transfer=lambda _objects, _size: None,
    )
    return StagedWorkspace(repository=REPOSITORY, branch=branch, commit=made.id)


def checkout(store: EmbeddedWorkspaceStore, target: Path) -> None:
    """List and write the whole main branch."""
    head = store.head(REPOSITORY, MAIN).id
    files = {RelativePath(entry.path): entry for entry in store.list_objects(REPOSITORY, head)}
    store.checkout(REPOSITORY, head, files, target, lambda _objects, _size: None)


def publish(source: Path, place: Path) -> None:
    """Change one file in 1000 and publish it, again and again."""
    timings = Timings(0)
    with EmbeddedWorkspaceStore(place / "publish-home", SystemClock()) as store:
        store.create_repository(REPOSITORY)
        import_directory(store, source)
        index = TreeIndex()
        for number in range(PUBLICATIONS):
            changed = source / f"part-{number:05}"
            changed.write_bytes(random.Random(number + 1).randbytes(10 * 1024))
            file = scan_directory(source, index).files[RelativePath(changed.name)]
            timings.measure("publish", partial(publish_one, store, file, number))
    worst = max(timings.seconds["publish"])
    print(
        f"publish 1 change in 1000 (branch, commit, merge, delete): "
        f"median {timings.median('publish') * 1000:.1f} ms, worst {worst * 1000:.1f} ms"
    )


def publish_one(store: EmbeddedWorkspaceStore, file: LocalFile, number: int) -> None:
    """What an attempt does to the store once its diff is known."""
    head = store.head(REPOSITORY, MAIN).id
    branch = BranchName(f"staging-{number}")
    store.create_branch(REPOSITORY, branch, head, hidden=True)
    staged = commit(store, branch, {ObjectPath(file.path.name): file})
    store.merge(staged, MAIN, expected_head=head, message="bench", metadata={}, timeout_seconds=30)
    store.delete_branch(REPOSITORY, branch)

"""Garbage collection: what nothing leads to goes, what anybody may still need stays."""

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from perago.adapters.embedded.store import EmbeddedWorkspaceStore, GarbageReport
from perago.adapters.embedded.store.sessions import (
    bury_dead_sessions,
    living_pins,
    open_session,
)
from perago.domain.errors import CorruptStoreError, NotFoundInStoreError, UnpublishableFileError
from perago.domain.ids import BranchName, CommitId, RelativePath
from tests.unit.adapters.embedded.store.conftest import LARGE, MAIN, REPOSITORY, Bench

AT_ONCE = timedelta(0)
NOTHING = GarbageReport(commits=0, tree_nodes=0, contents=0, temporary_files=0, bytes_freed=0)


def is_there(bench: Bench, commit: CommitId) -> bool:
    try:
        bench.store.read_commit(REPOSITORY, commit)
    except NotFoundInStoreError:
        return False
    return True


def test_an_abandoned_commit_goes_with_all_that_was_only_its_own(bench: Bench) -> None:
    kept = bench.commit({"shared": b"shared", "large": LARGE})
    gone = bench.abandon({"own": b"own", "own large": LARGE[1:], "shared again": b"shared"})
    assert bench.object_file(LARGE[1:]).exists()
    report = bench.store.gc(grace=AT_ONCE)
    assert report.commits == 1
    assert report.contents == 2
    assert report.tree_nodes == 2
    assert report.bytes_freed > len(LARGE)
    assert not is_there(bench, gone.id)
    assert not bench.object_file(LARGE[1:]).exists()
    assert bench.contents(kept.id) == {"shared": b"shared", "large": LARGE}
    assert bench.store.verify().is_clean
    assert bench.store.gc(grace=AT_ONCE) == NOTHING


def test_history_is_kept_whole(bench: Bench) -> None:
    commits = [bench.commit({"a": bytes([n])}) for n in range(5)]
    assert bench.store.gc(grace=AT_ONCE) == NOTHING
    for number, commit in enumerate(commits):
        assert bench.contents(commit.id) == {"a": bytes([number])}


def test_what_is_younger_than_the_grace_period_is_kept(bench: Bench) -> None:
    old = bench.abandon({"a": b"old"})
    bench.clock.advance(100)
    young = bench.abandon({"a": b"young", "large": LARGE})
    bench.clock.advance(50)
    assert bench.store.gc(grace=timedelta(seconds=60)).commits == 1
    assert not is_there(bench, old.id)
    assert bench.contents(young.id) == {"a": b"young", "large": LARGE}
    bench.clock.advance(20)
    assert bench.store.gc(grace=timedelta(seconds=60)).commits == 1
    assert not is_there(bench, young.id)


def test_an_input_ref_in_flight_is_kept_with_its_history(bench: Bench) -> None:
    branch, first = bench.commit_on_a_branch({"a": b"1"})
    second = bench.commit({"b": b"2"}, branch=branch)
    third = bench.commit({"c": b"3"}, branch=branch)
    bench.store.delete_branch(REPOSITORY, branch)
    unknown = CommitId("0" * 64)
    assert bench.store.gc(roots=[second.id, unknown], grace=AT_ONCE).commits == 1
    assert bench.contents(second.id) == {"a": b"1", "b": b"2"}
    assert is_there(bench, first.id)
    assert not is_there(bench, third.id)
    assert bench.store.verify().is_clean


def test_an_abandoned_publication_goes_once_nothing_needs_it(bench: Bench) -> None:
    base = bench.store.head(REPOSITORY, MAIN)
    abandoned = bench.commit({"a": b"1"})
    bench.store.relocate(
        REPOSITORY, MAIN, to=base.id, expected_head=abandoned.id, timeout_seconds=1
    )
    assert bench.store.gc(roots=[abandoned.id], grace=AT_ONCE) == NOTHING
    assert bench.store.gc(grace=AT_ONCE).commits == 1


@pytest.mark.parametrize("content", [b"small", LARGE], ids=["small", "large"])
def test_a_collection_in_the_middle_of_a_write_takes_nothing_that_it_needs(
    bench: Bench, content: bytes
) -> None:
    # Garbage that the write finds already stored, and content that nothing leads to yet.
    bench.abandon({"a": content})
    reports = []

    def collect(_objects: int, _size: int) -> None:
        reports.append(bench.store.gc(grace=AT_ONCE))

    commit = bench.commit({"b": content, "c": content[1:], "d": LARGE[2:]}, on_transfer=collect)
    assert sum(report.commits for report in reports) == 1
    assert sum(report.contents for report in reports) == 0
    assert bench.contents(commit.id) == {"b": content, "c": content[1:], "d": LARGE[2:]}
    assert bench.store.verify().is_clean


def test_a_collection_goes_on_while_another_process_writes(bench: Bench) -> None:
    # A second instance has a session of its own, as another process has.
    bench.abandon({"a": LARGE})
    inside, collected = threading.Event(), threading.Event()

    def pause(_objects: int, _size: int) -> None:
        inside.set()
        assert collected.wait(60)

    made = []
    writer = threading.Thread(
        target=lambda: made.append(bench.commit({"b": LARGE}, on_transfer=pause))
    )
    writer.start()
    assert inside.wait(60)
    with EmbeddedWorkspaceStore(bench.home, bench.clock) as other:
        report = other.gc(grace=AT_ONCE)
    collected.set()
    writer.join()
    assert (report.commits, report.contents) == (1, 0)
    assert bench.contents(made[0].id) == {"b": LARGE}


def test_a_write_that_failed_leaves_nothing_pinned(bench: Bench) -> None:
    bench.abandon({"a": LARGE})
    file = bench.file(LARGE)
    file.path.write_bytes(b"changed")
    with pytest.raises(UnpublishableFileError):
        bench.store.commit_changes(
            REPOSITORY,
            MAIN,
            writes={"b": file},  # type: ignore[dict-item]
            deletes=(),
            message="",
            metadata={},
            on_transfer=lambda _objects, _size: None,
        )
    assert bench.debris() == []
    with bench.store._database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (0,)
    assert bench.store.gc(grace=AT_ONCE).contents == 1


def test_a_session_that_begins_during_a_collection_is_never_taken_for_dead(
    bench: Bench,
) -> None:
    home, database = bench.store._home, bench.store._database
    over = threading.Event()

    def bury() -> None:
        while not over.is_set():
            bury_dead_sessions(home, database)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as pool:
            burying = pool.submit(bury)
            try:
                for number in range(250):
                    digest = bytes([number]) * 32
                    with (
                        open_session(home, database, [digest]),
                        database.reading() as connection,
                    ):
                        assert living_pins(home, connection) == {digest}
            finally:
                over.set()
            burying.result()
    finally:
        sys.setswitchinterval(interval)


KILLED_WRITER = """
import os, signal, sys
from pathlib import Path
from blake3 import blake3
from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.adapters.localfs.clock import SystemClock
from perago.ports import LocalFile

home, directory = map(Path, sys.argv[1:])
writes = {}
for name, size in (("small", 10_000_000), ("large", 300_000)):
    # Small files fill more than one batch, so that some are stored before the kill.
    for number in range(size // 50_000 if name == "small" else 1):
        content = os.urandom(50_000 if name == "small" else size)
        path = directory / f"{name}-{number}"
        path.write_bytes(content)
        digest = blake3(content).hexdigest()
        writes[f"{name}-{number}"] = LocalFile(path=path, digest=digest, size=len(content))
seen = 0

def die(_objects, size):
    global seen
    seen += size
    if seen > 10_100_000:
        os.kill(os.getpid(), signal.SIGKILL)

EmbeddedWorkspaceStore(home, SystemClock()).commit_changes(
    "repo", "main", writes=writes, deletes=(), message="", metadata={}, on_transfer=die
)
"""


def test_what_a_killed_writer_left_is_collected(bench: Bench) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", KILLED_WRITER, bench.home, bench.files], check=False
    )
    assert answer.returncode == -signal.SIGKILL
    assert bench.debris()
    # The dead writer used the real time, which is before the virtual one.
    report = bench.store.gc(grace=AT_ONCE)
    assert report.contents > 100
    assert report.temporary_files == 1
    assert report.bytes_freed > 8_000_000
    assert bench.debris() == []
    assert list((bench.home / "objects").glob("*/*")) == []
    assert bench.store.verify().is_clean


def test_a_file_that_nothing_knows_of_is_removed_and_a_foreign_one_is_not(bench: Bench) -> None:
    bench.commit({"a": LARGE})
    orphan = bench.object_file(b"orphan")
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"orphan")
    foreign = orphan.parent / ".DS_Store"
    foreign.touch()
    report = bench.store.gc(grace=AT_ONCE)
    assert (report.temporary_files, report.bytes_freed) == (1, len(b"orphan"))
    assert not orphan.exists()
    assert foreign.exists()
    assert bench.object_file(LARGE).exists()


def test_space_in_the_database_is_given_back(bench: Bench) -> None:
    bench.abandon({f"part-{n}": os.urandom(50_000) for n in range(40)})
    bench.store.gc(grace=timedelta(days=1))
    full = (bench.home / "store.sqlite3").stat().st_size
    bench.store.gc(grace=AT_ONCE)
    assert (bench.home / "store.sqlite3").stat().st_size < full / 4


def test_a_damaged_store_is_not_collected(bench: Bench) -> None:
    commit = bench.commit({"a": b"1"})
    bench.abandon({"b": b"2"})
    with bench.store._database.writing() as connection:
        connection.execute("DELETE FROM trees WHERE id = ?", (bytes.fromhex(commit.tree),))
    with pytest.raises(CorruptStoreError, match=commit.tree):
        bench.store.gc(grace=AT_ONCE)


def test_a_new_branch_saves_a_commit_that_was_about_to_go(bench: Bench) -> None:
    commit = bench.abandon({"a": b"1"})
    bench.store.create_branch(REPOSITORY, BranchName("saved"), commit.id)
    assert bench.store.gc(grace=AT_ONCE) == NOTHING
    assert bench.contents(commit.id) == {"a": b"1"}


def test_who_reads_a_commit_that_is_collected_is_told_that_it_is_gone(
    bench: Bench, tmp_path: Path
) -> None:
    commit = bench.abandon({"a": LARGE, "b": LARGE[1:]})
    listing = bench.store.list_objects(REPOSITORY, commit.id)
    entries = {RelativePath(e.path): e for e in bench.store.list_objects(REPOSITORY, commit.id)}

    def collect(_objects: int, _size: int) -> None:
        bench.store.gc(grace=AT_ONCE)

    many = {RelativePath(f"{n}"): entries[RelativePath("a")] for n in range(8)} | entries
    with pytest.raises(NotFoundInStoreError, match=commit.id):
        bench.store.checkout(REPOSITORY, commit.id, many, tmp_path, collect)
    with pytest.raises(NotFoundInStoreError, match=commit.id):
        list(listing)


def test_an_empty_store_has_no_garbage(tmp_path: Path, bench: Bench) -> None:
    with EmbeddedWorkspaceStore(tmp_path / "other", bench.clock) as store:
        assert store.gc(grace=AT_ONCE) == NOTHING

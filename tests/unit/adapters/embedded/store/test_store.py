"""What the embedded store does beyond the port's contract."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from perago.domain.errors import (
    CorruptStoreError,
    HeadMovedError,
    StoreError,
    UnpublishableFileError,
)
from perago.domain.ids import BranchName, ObjectPath, RelativePath, RepositoryName
from perago.domain.publication import StagedWorkspace
from perago.domain.workspace import ObjectEntry
from perago.ports import LocalFile
from tests.unit.adapters.embedded.store.conftest import LARGE, MAIN, REPOSITORY, Bench


def checkout(bench: Bench, directory: Path) -> None:
    head = bench.store.head(REPOSITORY, MAIN).id
    files: Mapping[RelativePath, ObjectEntry] = {
        RelativePath(entry.path): entry for entry in bench.store.list_objects(REPOSITORY, head)
    }
    bench.store.checkout(REPOSITORY, head, files, directory, lambda _objects, _size: None)


def commit_file(bench: Bench, path: str, file: LocalFile) -> None:
    bench.store.commit_changes(
        REPOSITORY,
        MAIN,
        writes={ObjectPath(path): file},
        deletes=(),
        message="",
        metadata={},
        on_transfer=lambda _objects, _size: None,
    )


def test_equal_contents_are_stored_once(bench: Bench) -> None:
    bench.commit({f"copy-{n}": LARGE for n in range(5)})
    bench.commit({"later": LARGE})
    assert len(list((bench.home / "objects").glob("*/*"))) == 1
    assert bench.store.verify().contents == 1


def test_a_stored_file_is_read_only_and_has_one_name(bench: Bench) -> None:
    bench.commit({"a": LARGE})
    status = bench.object_file(LARGE).stat()
    assert stat.S_IMODE(status.st_mode) & 0o222 == 0
    assert status.st_nlink == 1


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537])
def test_contents_around_the_border_between_database_and_file(bench: Bench, size: int) -> None:
    content = os.urandom(size)
    commit = bench.commit({"a": content})
    assert bench.object_file(content).exists() == (size > 65_536)
    assert bench.contents(commit.id) == {"a": content}


def test_the_empty_path_and_text_that_is_no_unicode_are_paths_too(bench: Bench) -> None:
    contents = {"": b"nameless", "\ud800": b"lone", "a\udcff/b": b"escaped", "/" * 3000: b"deep"}
    commit = bench.commit(contents)
    assert bench.contents(commit.id) == contents
    assert bench.contents(bench.commit({}, list(contents)[:3]).id) == {"/" * 3000: b"deep"}


def test_names_that_are_no_unicode_are_not_found(bench: Bench) -> None:
    for call in (
        lambda: bench.store.head(RepositoryName("\ud800"), MAIN),
        lambda: bench.store.head(REPOSITORY, BranchName("\ud800")),
        lambda: bench.store.resolve(REPOSITORY, "\ud800"),
        lambda: bench.store.create_repository(RepositoryName("\ud800")),
    ):
        with pytest.raises(StoreError, match="ud800"):
            call()


def test_an_ambiguous_beginning_of_a_commit_id_is_refused(bench: Bench) -> None:
    commit = bench.commit({"a": b"1"})
    with bench.store._database.writing() as connection:
        for twin in ("abcdef0123" + "0" * 54, "abcdef0123" + "1" * 54):
            connection.execute(
                "INSERT INTO commits SELECT ?, repository, record, created_at "
                "FROM commits WHERE id = ?",
                (twin, commit.id),
            )
    with pytest.raises(StoreError, match="abcdef01"):
        bench.store.resolve(REPOSITORY, "abcdef01")
    assert bench.store.resolve(REPOSITORY, "abcdef01230") == "abcdef0123" + "0" * 54


def test_a_branch_that_looks_like_a_commit_is_a_branch(bench: Bench) -> None:
    first = bench.store.head(REPOSITORY, MAIN).id
    commit = bench.commit({"a": b"1"})
    bench.store.create_branch(REPOSITORY, BranchName(commit.id[:10]), first)
    assert bench.store.resolve(REPOSITORY, commit.id[:10]) == first
    assert bench.store.resolve(REPOSITORY, commit.id[:11]) == commit.id


def test_an_object_cannot_be_written_and_deleted_in_one_commit(bench: Bench) -> None:
    bench.commit({"a": b"1"})
    with pytest.raises(StoreError, match="'a'"):
        bench.commit({"a": b"2"}, ["a"])


def test_a_staging_that_moved_on_is_not_merged(bench: Bench) -> None:
    head = bench.store.head(REPOSITORY, MAIN).id
    branch, commit = bench.commit_on_a_branch({"a": b"1"})
    moved = bench.commit({"a": b"2"}, branch=branch)
    with pytest.raises(HeadMovedError) as caught:
        bench.store.merge(
            StagedWorkspace(repository=REPOSITORY, branch=branch, commit=commit.id),
            MAIN,
            expected_head=head,
            message="",
            metadata={},
            timeout_seconds=1,
        )
    assert (caught.value.branch, caught.value.actual) == (branch, moved.id)
    assert bench.store.head(REPOSITORY, MAIN).id == head


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("put", [os.symlink, os.link])
def test_what_is_in_the_way_is_neither_written_through_nor_replaced(
    bench: Bench, tmp_path: Path, name: str, put: Callable[[Path, Path], None]
) -> None:
    bench.commit({"a": b"content", "b": LARGE})
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.write_bytes(b"precious")
    target.mkdir()
    put(outside, target / name)

    with pytest.raises(StoreError, match="there is a file") as caught:
        checkout(bench, target)

    assert caught.value.hint
    assert outside.read_bytes() == b"precious"
    assert (target / name).read_bytes() == b"precious"


@pytest.mark.parametrize("content", [b"small", LARGE], ids=["small", "large"])
def test_a_file_that_became_something_else_is_refused(bench: Bench, content: bytes) -> None:
    link, fifo, directory = bench.file(content), bench.file(content), bench.file(content)
    for file in (link, fifo, directory):
        file.path.unlink()
    link.path.symlink_to(bench.file(content).path)
    os.mkfifo(fifo.path)
    directory.path.mkdir()
    for file in (link, fifo, directory):
        with pytest.raises(UnpublishableFileError, match=str(file.path)):
            commit_file(bench, "a", file)
    assert bench.debris() == []


def test_a_stored_file_that_was_lost_is_stored_again(bench: Bench) -> None:
    first = bench.commit({"a": LARGE})
    bench.object_file(LARGE).unlink()
    with pytest.raises(CorruptStoreError, match="'a'"):
        bench.contents(first.id)
    bench.commit({"b": LARGE})
    assert bench.contents(first.id) == {"a": LARGE}
    assert bench.store.verify().is_clean


def test_a_stored_file_of_the_wrong_length_is_not_streamed(bench: Bench) -> None:
    commit = bench.commit({"a": LARGE})
    bench.object_file(LARGE).chmod(0o644)
    bench.object_file(LARGE).write_bytes(LARGE[:-1])
    with pytest.raises(CorruptStoreError, match="wrong length"):
        bench.contents(commit.id)


def test_a_transfer_that_the_caller_stops_leaves_nothing_behind(bench: Bench) -> None:
    head = bench.store.head(REPOSITORY, MAIN)

    def stop(_objects: int, _size: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.commit({f"large-{n}": LARGE + bytes([n]) for n in range(6)}, on_transfer=stop)
    assert bench.store.head(REPOSITORY, MAIN) == head
    assert bench.debris() == []


NO_SPACE = """
import resource, signal, sys
from pathlib import Path
from perago.adapters.embedded.store import EmbeddedWorkspaceStore
from perago.adapters.localfs.clock import SystemClock
from perago.domain.errors import InsufficientDiskError

with EmbeddedWorkspaceStore(Path(sys.argv[1]), SystemClock()) as store:
    head = store.head("repo", "main").id
    (entry,) = store.list_objects("repo", head, sys.argv[3])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    try:
        store.checkout("repo", head, {"f": entry}, Path(sys.argv[2]), lambda _objects, _size: None)
    except InsufficientDiskError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


@pytest.mark.parametrize("path", ["small", "large"])
def test_a_disk_that_is_full_at_checkout_is_reported(
    bench: Bench, tmp_path: Path, path: str
) -> None:
    bench.commit({"small": b"s" * 5000, "large": LARGE})
    target = tmp_path / "target"
    target.mkdir()
    answer = subprocess.run(
        [sys.executable, "-c", NO_SPACE, bench.home, target, path],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.startswith(f"cannot write to {target}: ")
    assert "hint: free some space" in answer.stdout


def test_thousands_of_files_go_in_and_come_out(bench: Bench, tmp_path: Path) -> None:
    round_trip(bench, tmp_path / "out", 5_000)


@pytest.mark.torture
def test_a_hundred_thousand_files_go_in_and_come_out(bench: Bench, tmp_path: Path) -> None:
    round_trip(bench, tmp_path / "out", 100_000)


def round_trip(bench: Bench, out: Path, number: int) -> None:
    sources = [bench.file(b"%d" % n) for n in range(300)]
    files = {f"d{n % 17}/f{n % 5}/part-{n:06}": sources[n % 300] for n in range(number)}
    bench.store.commit_changes(
        REPOSITORY,
        MAIN,
        writes={ObjectPath(path): file for path, file in files.items()},
        deletes=(),
        message="many",
        metadata={},
        on_transfer=lambda _objects, _size: None,
    )
    out.mkdir()
    checkout(bench, out)
    found = {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in out.rglob("*")
        if path.is_file()
    }
    assert found == {path: file.path.read_bytes() for path, file in files.items()}
    changed = bench.commit({"d3/f3/part-000003": b"changed"}, ["d0/f0/part-000000"])
    listed = [entry.path for entry in bench.store.list_objects(REPOSITORY, changed.id)]
    assert listed == sorted(files.keys() - {"d0/f0/part-000000"})

"""Checkout: objects become private, writable, checked files."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from perago.domain.errors import NotFoundInStoreError, StoreError
from perago.domain.ids import ObjectPath, RelativePath, RepositoryName
from perago.domain.workspace import ObjectEntry
from perago.testing.store_contract.bench import (
    NOWHERE,
    StoreBench,
    digest_of,
    ignore_transfer,
)

_SMALL = b"small"
_LARGE = bytes(range(256)) * 1200
"""Too large for a store to keep it any other way than as a file or a blob of its own."""


def files_below(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


class CheckoutContract:
    """What the port says of checkout."""

    def test_objects_become_files_with_their_digests(self, bench: StoreBench) -> None:
        contents = {
            "a": _SMALL,
            "empty": b"",
            "large": _LARGE,
            "dir/of/many parts/x": b"x",
            "100% #1+2 äöü 日本 😀.txt": b"name",
        }
        repository, directory = bench.repository(contents), bench.empty_directory()
        digests = bench.checkout(repository, bench.head(repository), directory)
        assert files_below(directory) == contents
        assert digests == {path: digest_of(content) for path, content in contents.items()}

    @pytest.mark.parametrize("content", [_SMALL, _LARGE], ids=["small", "large"])
    @pytest.mark.parametrize("kind", ["file", "link"])
    def test_nothing_is_written_over(self, bench: StoreBench, content: bytes, kind: str) -> None:
        """A file system may take two different names for the same one."""
        repository, directory = bench.repository({"a": content}), bench.empty_directory()
        precious = bench.empty_directory() / "precious"
        precious.write_bytes(b"precious")
        if kind == "link":
            (directory / "a").symlink_to(precious)
        else:
            (directory / "a").write_bytes(b"precious")
        with pytest.raises(StoreError):
            bench.checkout(repository, bench.head(repository), directory)
        assert (directory / "a").read_bytes() == b"precious"
        assert precious.read_bytes() == b"precious"

    def test_only_the_given_objects_are_written_under_the_given_names(
        self, bench: StoreBench
    ) -> None:
        repository = bench.repository({"p/a": b"1", "p/b": b"2", "q": b"3"})
        head, directory = bench.head(repository), bench.empty_directory()
        entries = {entry.path: entry for entry in bench.store.list_objects(repository, head)}
        wanted = {
            RelativePath("a"): entries[ObjectPath("p/a")],
            RelativePath("again/a"): entries[ObjectPath("p/a")],
            RelativePath("q/r/s"): entries[ObjectPath("q")],
        }
        digests = bench.second.checkout(repository, head, wanted, directory, ignore_transfer)
        assert files_below(directory) == {"a": b"1", "again/a": b"1", "q/r/s": b"3"}
        assert set(digests) == set(wanted)

    def test_an_old_commit_is_checked_out_as_it_was(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"old"})
        old, directory = bench.head(repository), bench.empty_directory()
        bench.commit(repository, bench.store.branches(repository)[0].name, {"a": b"new"})
        bench.checkout(repository, old, directory)
        assert files_below(directory) == {"a": b"old"}

    def test_nothing_to_write_writes_nothing(self, bench: StoreBench) -> None:
        repository, directory = bench.repository(), bench.empty_directory()
        assert bench.checkout(repository, bench.head(repository), directory) == {}
        assert list(directory.iterdir()) == []

    @pytest.mark.parametrize("content", [_SMALL, _LARGE], ids=["small", "large"])
    def test_files_are_private_writable_copies(self, bench: StoreBench, content: bytes) -> None:
        repository = bench.repository({"a": content, "b": content})
        head = bench.head(repository)
        one, other = bench.empty_directory(), bench.empty_directory()
        bench.checkout(repository, head, one)
        bench.checkout(repository, head, other)
        for path in (one / "a", one / "b", other / "a"):
            status = path.lstat()
            assert stat.S_ISREG(status.st_mode)
            assert status.st_nlink == 1
            assert status.st_mode & stat.S_IWUSR
        with (one / "a").open("r+b") as stream:
            stream.write(b"OVERWRITTEN")
            stream.flush()
            os.fsync(stream.fileno())
        assert (one / "b").read_bytes() == content
        assert (other / "a").read_bytes() == content
        assert bench.read(repository, head, "a") == content

    def test_a_stored_object_does_not_follow_the_file_it_came_from(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": _SMALL, "b": _LARGE})
        for path in bench.directory.glob("local-*"):
            path.chmod(0o644)
            with path.open("r+b") as stream:
                stream.write(b"OVERWRITTEN")
        assert bench.contents(repository, bench.head(repository)) == {"a": _SMALL, "b": _LARGE}

    def test_the_progress_of_a_checkout_adds_up(self, bench: StoreBench) -> None:
        contents = {"a": _SMALL, "b": _LARGE, "c": b"", "d/e": _SMALL}
        repository, directory = bench.repository(contents), bench.empty_directory()
        head = bench.head(repository)
        lock, moved = threading.Lock(), [0, 0]

        def on_transfer(objects: int, size: int) -> None:
            with lock:
                moved[0] += objects
                moved[1] += size

        files = {RelativePath(e.path): e for e in bench.store.list_objects(repository, head)}
        bench.store.checkout(repository, head, files, directory, on_transfer)
        assert moved == [4, sum(map(len, contents.values()))]

    @pytest.mark.parametrize("needed", [0, 1 << 60], ids=["nothing", "more than there is"])
    def test_making_room_takes_nothing_that_anybody_needs(
        self, bench: StoreBench, needed: int
    ) -> None:
        contents = {"a": _SMALL, "b": _LARGE}
        repository, directory = bench.repository(contents), bench.empty_directory()
        head = bench.head(repository)
        bench.checkout(repository, head, directory)
        for place in (directory, directory / "no" / "such"):
            bench.store.make_room(place, needed)
        assert files_below(directory) == contents
        assert not (directory / "no").exists()
        again = bench.empty_directory()
        bench.checkout(repository, head, again)
        assert files_below(again) == contents
        assert bench.contents(repository, head) == contents

    def test_a_checkout_of_what_is_not_there_names_it(self, bench: StoreBench) -> None:
        repository, directory = bench.repository({"a": b"1"}), bench.empty_directory()
        head = bench.head(repository)
        files = {RelativePath(e.path): e for e in bench.store.list_objects(repository, head)}
        (entry,) = files.values()
        missing = ObjectEntry(path=ObjectPath("missing"), size=entry.size, checksum=entry.checksum)
        with pytest.raises(NotFoundInStoreError, match="missing"):
            bench.store.checkout(
                repository, head, {RelativePath("b"): missing}, directory, ignore_transfer
            )
        with pytest.raises(NotFoundInStoreError, match=NOWHERE):
            bench.store.checkout(repository, NOWHERE, files, directory, ignore_transfer)
        unknown = RepositoryName("unknown")
        with pytest.raises(NotFoundInStoreError, match=unknown):
            bench.store.checkout(unknown, head, files, directory, ignore_transfer)
        assert files_below(directory) == {}

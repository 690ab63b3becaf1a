"""Objects: any text is a path, listed in the order of its bytes, read as a stream."""

from __future__ import annotations

import pytest

from perago.domain.errors import NotFoundInStoreError
from perago.domain.ids import ObjectPath, RepositoryName
from perago.testing.store_contract.bench import MAIN, NOWHERE, StoreBench, ignore_transfer

HOSTILE_PATHS = (
    "../x",
    "../../etc/passwd",
    "./x",
    "/abs",
    "//",
    "a",
    "a/",
    "a//",
    "a//b",
    "a/b",
    "a/b/",
    "a/./b",
    "a/../b",
    "nul\x00inside",
    "tab\tline\nreturn\r",
    "\x7f\x1b[31m",
    " leading and trailing ",
    "percent%2Fencoded",
    "hash#query?plus+and&more=",
    "back\\slash",
    "quote\"'`;--",
    "Case",
    "case",
    "\u00e9",
    "e\u0301",
    "\u202egnp.exe",
    "long-" + "x" * 400,
    ".perago-attempt.json",
    "deep/" + "d/" * 120 + "leaf",
)
"""Legal in a store, whatever a file system says."""


class ObjectContract:
    """What the port says of objects."""

    def test_any_text_is_stored_and_listed_verbatim(self, bench: StoreBench) -> None:
        contents = {path: f"content of {path!r}".encode() for path in HOSTILE_PATHS}
        repository = bench.repository(contents)
        assert bench.contents(repository, bench.head(repository)) == contents

    @pytest.mark.parametrize("path", HOSTILE_PATHS)
    def test_any_path_is_changed_and_deleted_alone(self, bench: StoreBench, path: str) -> None:
        others = {"a": b"1", "a/b": b"2", "a/b/c": b"3", "z": b"4"} | {path: b"old"}
        repository = bench.repository(others)
        changed = bench.commit(repository, MAIN, {path: b"new"})
        assert bench.contents(repository, changed.id) == others | {path: b"new"}
        deleted = bench.commit(repository, MAIN, {}, [path])
        del others[path]
        assert bench.contents(repository, deleted.id) == others

    def test_a_listing_is_in_the_order_of_utf8_bytes(self, bench: StoreBench) -> None:
        paths = [
            *("b", "a", "a/b", "a-b", "a.b", "a/", "a0", "a/b/c", "a/b-c", "ab", "A", "Z/z", "~"),
            # UTF-16 would have the last of these before the one above it.
            *("é", "z", "日", "\uff5e", "😀", "a/日", "a/😀", "a/\uff5e"),
        ]
        repository = bench.repository(dict.fromkeys(paths, b"x"))
        listed = bench.paths(repository, bench.head(repository))
        assert listed == sorted(paths, key=lambda path: path.encode())

    @pytest.mark.parametrize(
        ("prefix", "expected"),
        [
            ("", ["a", "a-b", "a/", "a/b", "a/b/c", "a/bc", "ab", "b/a", "é/1", "éa"]),
            ("a", ["a", "a-b", "a/", "a/b", "a/b/c", "a/bc", "ab"]),
            ("a/", ["a/", "a/b", "a/b/c", "a/bc"]),
            ("a/b", ["a/b", "a/b/c", "a/bc"]),
            ("a/b/", ["a/b/c"]),
            ("a/b/c", ["a/b/c"]),
            ("a/b/c/", []),
            ("b", ["b/a"]),
            ("é", ["é/1", "éa"]),
            ("é/", ["é/1"]),
            ("/a", []),
            ("A", []),
            ("zz", []),
            ("%", []),
            ("_", []),
        ],
    )
    def test_a_prefix_is_the_beginning_of_a_path(
        self, bench: StoreBench, prefix: str, expected: list[str]
    ) -> None:
        every = ["a", "a-b", "a/", "a/b", "a/b/c", "a/bc", "ab", "b/a", "é/1", "éa"]
        repository = bench.repository(dict.fromkeys(every, b"x"))
        assert bench.paths(repository, bench.head(repository), prefix) == expected

    def test_a_long_listing_is_whole(self, bench: StoreBench) -> None:
        paths = [f"{top}/part-{n:05}" for top in ("one", "two", "twofold") for n in range(400)]
        repository = bench.repository()
        file = bench.file(b"x")
        commit = bench.store.commit_changes(
            repository,
            MAIN,
            writes={ObjectPath(path): file for path in paths},
            deletes=(),
            message="many",
            metadata={},
            on_transfer=ignore_transfer,
        )
        assert bench.paths(repository, commit.id) == paths
        assert bench.paths(repository, commit.id, "two/") == paths[400:800]
        assert bench.paths(repository, commit.id, "two") == paths[400:]

    def test_a_listing_shows_sizes_and_checksums_of_the_content(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"", "b": b"12345", "c": b"12345", "d": b"54321"})
        entries = {e.path: e for e in bench.store.list_objects(repository, bench.head(repository))}
        sizes = {path: entry.size for path, entry in entries.items()}
        assert sizes == {"a": 0, "b": 5, "c": 5, "d": 5}
        b, c, d = (entries[ObjectPath(path)].checksum for path in "bcd")
        assert b == c != d

    def test_a_commit_never_changes(self, bench: StoreBench) -> None:
        repository = bench.repository({"a": b"1", "b": b"1"})
        old = bench.head(repository)
        bench.commit(repository, MAIN, {"a": b"2", "c": b"2"}, ["b"])
        assert bench.contents(repository, old) == {"a": b"1", "b": b"1"}

    def test_an_object_is_read_in_pieces(self, bench: StoreBench) -> None:
        content = bytes(range(256)) * 4096
        repository = bench.repository({"big": content, "small": b"abc", "empty": b""})
        head = bench.head(repository)
        pieces = []
        with bench.second.open_object(repository, head, ObjectPath("big")) as stream:
            while piece := stream.read(100_000):
                pieces.append(piece)
        assert max(map(len, pieces)) <= 100_000
        assert b"".join(pieces) == content
        assert bench.read(repository, head, "empty") == b""
        with bench.second.open_object(repository, head, ObjectPath("small")) as stream:
            assert (stream.read(2), stream.read(), stream.read()) == (b"ab", b"c", b"")

    def test_an_object_that_is_not_there_is_named(self, bench: StoreBench) -> None:
        repository = bench.repository({"dir/file": b"1"})
        head = bench.head(repository)
        for path in ("missing", "dir", "dir/", "dir/file/", "dir/fil", "/dir/file", "DIR/file"):
            with pytest.raises(NotFoundInStoreError, match=path):
                bench.read(repository, head, path)
        with pytest.raises(NotFoundInStoreError, match=NOWHERE):
            bench.read(repository, NOWHERE, "dir/file")
        with pytest.raises(NotFoundInStoreError, match=NOWHERE):
            bench.paths(repository, NOWHERE)
        unknown = RepositoryName("unknown")
        with pytest.raises(NotFoundInStoreError, match=unknown):
            bench.read(unknown, head, "dir/file")
        with pytest.raises(NotFoundInStoreError, match=unknown):
            bench.paths(unknown, head)

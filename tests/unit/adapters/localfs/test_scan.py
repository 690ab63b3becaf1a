"""What a scan takes, what it refuses, and what it does not read twice."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from blake3 import blake3

from perago.adapters.localfs.copying import NotAFileError, hash_path
from perago.adapters.localfs.scan import scan_directory
from perago.adapters.localfs.tree_index import TreeIndex
from perago.domain.errors import UnpublishableFileError
from perago.domain.ids import Digest, RelativePath


def paths(directory: Path, index: TreeIndex | None = None) -> set[str]:
    return set(scan_directory(directory, index or TreeIndex()).files)


@pytest.mark.parametrize(
    "name", ["plain", "with space", "ünïcode-数据", "100%", "a#b", "a+b", "-dash", ".hidden"]
)
def test_takes_every_name_that_can_be_downloaded_again(tmp_path: Path, name: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / name).write_text("x")

    assert paths(tmp_path) == {f"sub/{name}"}


def test_reads_sizes_digests_and_directories(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "f").write_bytes(b"content")
    (tmp_path / "empty").write_bytes(b"")

    tree = scan_directory(tmp_path, TreeIndex())

    assert tree.directories == {"a", "a/b"}
    file = tree.files[RelativePath("a/f")]
    assert (file.size, file.digest) == (7, hash_path(tmp_path / "a" / "f"))
    assert tree.files[RelativePath("empty")].size == 0


def test_leaves_the_marker_out_at_the_root_only(tmp_path: Path) -> None:
    (tmp_path / ".perago-attempt.json").write_text("{}")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / ".perago-attempt.json").write_text("{}")

    assert paths(tmp_path) == {"deep/.perago-attempt.json"}


@pytest.mark.parametrize("target", ["f", "/etc/passwd", "missing", "."])
def test_refuses_symlinks_wherever_they_point(tmp_path: Path, target: str) -> None:
    (tmp_path / "f").write_text("x")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "link").symlink_to(target)

    with pytest.raises(
        UnpublishableFileError,
        match="workspace publication does not support symlinks: sub/link",
    ):
        scan_directory(tmp_path, TreeIndex())


def test_refuses_a_fifo(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(UnpublishableFileError, match=r"'pipe' cannot be published: it is a fifo"):
        scan_directory(tmp_path, TreeIndex())


def test_refuses_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's whole path must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        with pytest.raises(UnpublishableFileError, match="it is a socket"):
            scan_directory(tmp_path, TreeIndex())


@pytest.mark.parametrize(
    ("name", "shown"),
    [(b"bad\xff", r"bad\\udcff"), (b"tab\there", r"tab\\there"), (b"line\nbreak", r"line\\nbreak")],
)
def test_refuses_names_that_could_not_be_downloaded_again(
    tmp_path: Path, name: bytes, shown: str
) -> None:
    (tmp_path / os.fsdecode(name)).write_text("x")

    with pytest.raises(UnpublishableFileError) as caught:
        scan_directory(tmp_path, TreeIndex())

    assert "cannot be published" in caught.value.message
    caught.value.message.encode("utf-8")  # an error that cannot be printed helps nobody
    assert shown


def remembered(directory: Path, digests: dict[str, str], probe: Path) -> TreeIndex:
    index = TreeIndex()
    known = {RelativePath(path): Digest(digest) for path, digest in digests.items()}
    index.remember(directory, known, probe)
    return index


def wait_for_a_tick(directory: Path) -> None:
    """Let the file system's clock move on, so that what was written before is not racy."""
    probe = directory.parent / "tick"
    probe.write_text("")
    first = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == first:
        probe.write_text("x")


def test_an_untouched_file_is_not_read_again(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "f").write_text("content")
    wait_for_a_tick(files)
    # A digest that is plainly wrong shows that it was taken from the index, not computed.
    index = remembered(files, {"f": "remembered"}, tmp_path / "probe")

    assert scan_directory(files, index).files[RelativePath("f")].digest == "remembered"


def test_a_file_from_the_same_tick_is_read(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "f").write_text("content")
    index = TreeIndex()
    index.remember(files, {RelativePath("f"): Digest("remembered")}, tmp_path / "probe")
    index._taken_at_ns = (files / "f").stat().st_ctime_ns

    digest = scan_directory(files, index).files[RelativePath("f")].digest

    assert digest == hash_path(files / "f")


@pytest.mark.parametrize("how", ["rewrite in place", "replace", "append", "restore times"])
def test_a_changed_file_is_read(tmp_path: Path, how: str) -> None:
    files = tmp_path / "files"
    files.mkdir()
    file = files / "f"
    file.write_text("content")
    before = file.stat()
    wait_for_a_tick(files)
    index = remembered(files, {"f": "remembered"}, tmp_path / "probe")

    if how == "rewrite in place":
        with file.open("r+") as stream:
            stream.write("CONTENT")
    elif how == "replace":
        (files / "g").write_text("CONTENT")
        (files / "g").replace(file)
    elif how == "append":
        with file.open("a") as stream:
            stream.write("!")
    else:  # same size, same mtime: only ctime tells
        file.write_text("CONTENT")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert scan_directory(files, index).files[RelativePath("f")].digest == hash_path(file)


class SwappingIndex(TreeIndex):
    """An index that is asked after a file was looked at, and then puts something in its place."""

    def __init__(self, path: Path, swap: Callable[[Path], None]) -> None:
        super().__init__()
        self._path = path
        self._swap = swap

    def digest_if_untouched(self, path: str, stat: os.stat_result) -> Digest | None:
        self._path.unlink()
        self._swap(self._path)
        return super().digest_if_untouched(path, stat)


def link(path: Path) -> None:
    outside = path.parent.parent / "outside"
    outside.write_text("a secret")
    path.symlink_to(outside)


@pytest.mark.parametrize(("swap", "reason"), [(link, "symlinks: f"), (os.mkfifo, "it is a fifo")])
def test_what_takes_a_file_s_place_after_it_was_looked_at_is_refused(
    tmp_path: Path, swap: Callable[[Path], None], reason: str
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "f").write_text("content")

    with pytest.raises(UnpublishableFileError, match=reason):
        scan_directory(files, SwappingIndex(files / "f", swap))


def test_a_digest_is_that_of_a_regular_file_only(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("content")
    (tmp_path / "link").symlink_to("f")
    os.mkfifo(tmp_path / "pipe")

    assert hash_path(tmp_path / "f") == blake3(b"content").hexdigest()
    with pytest.raises(OSError, match="link"):
        hash_path(tmp_path / "link")
    with pytest.raises(NotAFileError):
        hash_path(tmp_path / "pipe")


class LinkingIndex(TreeIndex):
    """An index that, when it is asked, puts a link in the place of a directory."""

    def __init__(self, directory: Path, outside: Path) -> None:
        super().__init__()
        self._directory = directory
        self._outside = outside

    def digest_if_untouched(self, path: str, stat: os.stat_result) -> Digest | None:
        if not self._directory.is_symlink():
            self._directory.rename(self._directory.with_name("moved"))
            self._directory.symlink_to(self._outside)
        return super().digest_if_untouched(path, stat)


@pytest.mark.parametrize("looked", ["sub", "sub/deeper"])
def test_a_directory_that_becomes_a_link_under_the_scan_is_not_followed(
    tmp_path: Path, looked: str
) -> None:
    files, outside = tmp_path / "files", tmp_path / "outside"
    (files / "sub" / "deeper").mkdir(parents=True)
    (files / looked / "f").write_text("content")
    (outside / "deeper").mkdir(parents=True)
    (outside / "f").write_text("a secret")
    (outside / "deeper" / "f").write_text("a secret")

    with pytest.raises(UnpublishableFileError, match="support symlinks") as caught:
        scan_directory(files, LinkingIndex(files / "sub", outside))

    assert "sub" in caught.value.path

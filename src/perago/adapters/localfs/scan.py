"""Reads a body's directory as a tree, refusing what could not be published.

Invariant: only regular files whose names can be downloaded again are in the result, and nothing
outside the directory is ever opened: every directory is opened from the one above it, and no link
is followed on the way, whatever a body that still runs puts there meanwhile.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from perago.adapters.localfs.copying import hash_open, open_source
from perago.adapters.localfs.tree_index import TreeIndex
from perago.domain.errors import UnpublishableFileError
from perago.domain.ids import Digest, RelativePath
from perago.domain.workspace import explain_unsafe_path, is_reserved
from perago.ports import LocalFile, LocalTree
from perago.system.tree_removal import OPEN_DIRECTORY

_HASHING_THREADS = min(8, os.cpu_count() or 1)
_SPECIAL_KINDS = {
    stat.S_IFIFO: "a fifo",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}


def scan_directory(directory: Path, index: TreeIndex, descriptor: int | None = None) -> LocalTree:
    """Walk the directory; hash what the index does not vouch for.

    Where `descriptor` has the directory open, `directory` is only what its files are called.
    """
    if descriptor is not None:
        return _Scan(directory, index, descriptor).run()
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _Scan(directory, index, opened).run()
    finally:
        os.close(opened)


class _Scan:
    """One look at an open directory."""

    def __init__(self, directory: Path, index: TreeIndex, descriptor: int) -> None:
        self._directory = directory
        self._index = index
        self._descriptor = descriptor

    def run(self) -> LocalTree:
        directories: set[RelativePath] = set()
        known: dict[RelativePath, LocalFile] = {}
        unknown: list[RelativePath] = []
        for path, status in self._walk():
            if stat.S_ISDIR(status.st_mode):
                directories.add(path)
                continue
            digest = self._index.digest_if_untouched(path, status)
            if digest is None:
                unknown.append(path)
            else:
                known[path] = self._file(path, digest, status.st_size)
        known.update(self._hash_all(unknown))
        return LocalTree(files=known, directories=frozenset(directories))

    def _file(self, path: RelativePath, digest: Digest, size: int) -> LocalFile:
        return LocalFile(path=self._directory / path, digest=digest, size=size)

    def _hash_all(self, unknown: list[RelativePath]) -> Iterator[tuple[RelativePath, LocalFile]]:
        if not unknown:
            return
        with ThreadPoolExecutor(_HASHING_THREADS, thread_name_prefix="perago-hash") as pool:
            hashed = pool.map(self._hash, unknown)
            for path, (digest, size) in zip(unknown, hashed, strict=True):
                yield path, self._file(path, digest, size)

    def _hash(self, path: RelativePath) -> tuple[Digest, int]:
        parent, _, name = path.rpartition("/")
        with self._opened(parent) as directory:
            try:
                descriptor = open_source(name, directory=directory)
            except OSError:
                # Whatever took the file's place since the walk is refused in the same words.
                mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
                _refuse_unpublishable(path, mode)
                raise
            try:
                return hash_open(descriptor)
            finally:
                os.close(descriptor)

    def _walk(self) -> Iterator[tuple[RelativePath, os.stat_result]]:
        """Every file and directory below, checked, parents first."""
        pending = [""]
        while pending:
            parent = pending.pop()
            with self._opened(parent) as directory, os.scandir(directory) as entries:
                for entry in entries:
                    path = f"{parent}/{entry.name}" if parent else entry.name
                    if is_reserved(path):
                        continue
                    status = entry.stat(follow_symlinks=False)
                    _refuse_unpublishable(path, status.st_mode)
                    if stat.S_ISDIR(status.st_mode):
                        pending.append(path)
                    yield RelativePath(path), status

    @contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        """A directory below, opened step by step: a path would follow links on its way."""
        if path == "":
            yield self._descriptor
            return
        here = self._descriptor
        try:
            for name in path.split("/"):
                below = self._open_below(here, name, path)
                if here != self._descriptor:
                    os.close(here)
                here = below
            yield here
        finally:
            if here != self._descriptor:
                os.close(here)

    def _open_below(self, here: int, name: str, path: str) -> int:
        try:
            return os.open(name, OPEN_DIRECTORY, dir_fd=here)
        except OSError:
            _refuse_unpublishable(path, os.stat(name, dir_fd=here, follow_symlinks=False).st_mode)
            raise


def _refuse_unpublishable(path: str, mode: int) -> None:
    # A name that is not UTF-8 would break whoever prints the error: show it escaped.
    shown = path.encode("utf-8", "backslashreplace").decode()
    if stat.S_ISLNK(mode):
        raise UnpublishableFileError(
            f"workspace publication does not support symlinks: {shown}",
            path=shown,
            hint="write a copy of the file instead of a link",
        )
    reason = explain_unsafe_path(path)
    if reason is not None:
        raise UnpublishableFileError(
            f"file {shown!r} cannot be published: {reason}",
            path=shown,
            hint="give the file a name that can be downloaded again",
        )
    kind = _SPECIAL_KINDS.get(stat.S_IFMT(mode))
    if kind is not None:
        raise UnpublishableFileError(
            f"file {shown!r} cannot be published: it is {kind}",
            path=shown,
            hint="only regular files are published; remove it before the body returns",
        )

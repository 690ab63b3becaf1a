"""Reads a body's directory as a tree, refusing what could not be published.

Invariant: only regular files whose names can be downloaded again are in the result, and nothing
outside the directory is ever opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from perago.adapters.localfs.copying import hash_path
from perago.adapters.localfs.tree_index import TreeIndex
from perago.domain.errors import UnpublishableFileError
from perago.domain.ids import Digest, RelativePath
from perago.domain.workspace import explain_unsafe_path, is_reserved
from perago.ports import LocalFile, LocalTree

_HASHING_THREADS = min(8, os.cpu_count() or 1)
_SPECIAL_KINDS = {
    stat.S_IFIFO: "a fifo",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}


def scan_directory(directory: Path, index: TreeIndex) -> LocalTree:
    """Walk the directory; hash what the index does not vouch for."""
    directories: set[RelativePath] = set()
    known: dict[RelativePath, LocalFile] = {}
    unknown: list[tuple[RelativePath, int]] = []
    for path, status in _walk(directory):
        if stat.S_ISDIR(status.st_mode):
            directories.add(path)
            continue
        digest = index.digest_if_untouched(path, status)
        if digest is None:
            unknown.append((path, status.st_size))
        else:
            known[path] = LocalFile(path=directory / path, digest=digest, size=status.st_size)
    known.update(_hash_all(directory, unknown))
    return LocalTree(files=known, directories=frozenset(directories))


def _hash_all(
    directory: Path, unknown: list[tuple[RelativePath, int]]
) -> Iterator[tuple[RelativePath, LocalFile]]:
    if not unknown:
        return

    def digest_of(item: tuple[RelativePath, int]) -> Digest:
        path = directory / item[0]
        try:
            return hash_path(path)
        except OSError:
            # Whatever took the file's place since the walk is refused in the same words.
            _refuse_unpublishable(item[0], path.lstat().st_mode)
            raise

    with ThreadPoolExecutor(_HASHING_THREADS, thread_name_prefix="perago-hash") as pool:
        for (path, size), digest in zip(unknown, pool.map(digest_of, unknown), strict=True):
            yield path, LocalFile(path=directory / path, digest=digest, size=size)


def _walk(directory: Path) -> Iterator[tuple[RelativePath, os.stat_result]]:
    """Every file and directory below, checked, parents first."""
    pending = [""]
    while pending:
        parent = pending.pop()
        with os.scandir(directory / parent) as entries:
            for entry in entries:
                path = f"{parent}/{entry.name}" if parent else entry.name
                if is_reserved(path):
                    continue
                status = entry.stat(follow_symlinks=False)
                _refuse_unpublishable(path, status.st_mode)
                if stat.S_ISDIR(status.st_mode):
                    pending.append(path)
                yield RelativePath(path), status


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

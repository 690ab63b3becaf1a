"""Moves whole directories in and out of a store, outside any task: for people and set-up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from perago.app.room import ensure_room
from perago.domain.changes import ChangeSet, diff_trees
from perago.domain.errors import NothingChangedError, StoreError, UsageError
from perago.domain.ids import (
    BranchName,
    CommitId,
    Digest,
    ObjectPath,
    RelativePath,
    RepositoryName,
)
from perago.domain.publication import IMPORT_METADATA, Commit
from perago.domain.workspace import ObjectEntry, Prefix, map_objects
from perago.ports import LocalDisk, LocalFile, LocalTree, OnTransfer, WorkspaceStore

_COMPARED_AT_A_TIME = 8
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """Which directory goes where. `mirror` also deletes what the directory does not have."""

    directory: Path
    repository: RepositoryName
    branch: BranchName
    prefix: Prefix
    message: str
    mirror: bool = False


def import_directory(
    request: ImportRequest,
    *,
    store: WorkspaceStore,
    scan: Callable[[Path], LocalTree],
    on_transfer: OnTransfer,
) -> Commit | None:
    """Commit a directory's files to a branch; None when the branch holds them already."""
    if not request.directory.is_dir():
        raise UsageError(f"{request.directory} is not a directory", hint="name one to import")
    tree = scan(request.directory)
    prefix, repository = request.prefix, request.repository
    head = store.head(repository, request.branch)
    existing = {entry.path: entry for entry in store.list_objects(repository, head.id, prefix.key)}
    deletes: list[ObjectPath] = []
    if request.mirror:
        kept = {prefix.join(path) for path in tree.files}
        deletes = [path for path in existing if path not in kept and not path.endswith("/")]
    files = {prefix.join(path): file for path, file in tree.files.items()}
    same = _find_same(files, existing, partial(store.open_object, repository, head.id))
    writes = {path: file for path, file in files.items() if path not in same}
    if not writes and not deletes:
        return None
    try:
        made = store.commit_changes(
            repository,
            request.branch,
            writes=writes,
            deletes=deletes,
            message=request.message,
            metadata=IMPORT_METADATA,
            on_transfer=on_transfer,
        )
    except NothingChangedError:  # somebody else imported the same meanwhile
        return None
    if made.parents != (head.id,):
        raise StoreError(
            f"imported as {made.id}, but {repository}/{request.branch} had moved on meanwhile: "
            "this commit stands on another one than was looked at",
            hint=f"look at `perago store log {repository}@{request.branch}`",
        )
    return made


def _find_same(
    files: Mapping[ObjectPath, LocalFile],
    existing: Mapping[ObjectPath, ObjectEntry],
    open_object: Callable[[ObjectPath], AbstractContextManager[BinaryIO]],
) -> set[ObjectPath]:
    """The objects that hold what the files hold.

    An object that somebody else wrote has no digest of ours: only its bytes can tell.
    """
    same: set[ObjectPath] = set()
    unknown: list[ObjectPath] = []
    for path, file in files.items():
        entry = existing.get(path)
        if entry is None or entry.size != file.size:
            continue
        if entry.digest is None:
            unknown.append(path)
        elif entry.digest == file.digest:
            same.add(path)

    def holds(path: ObjectPath) -> bool:
        with open_object(path) as theirs, files[path].path.open("rb") as ours:
            while chunk := ours.read(_CHUNK_BYTES):
                if theirs.read(len(chunk)) != chunk:
                    return False
            return True

    with ThreadPoolExecutor(_COMPARED_AT_A_TIME) as pool:
        same.update(
            path for path, is_same in zip(unknown, pool.map(holds, unknown), strict=True) if is_same
        )
    return same


def export_directory(
    directory: Path,
    *,
    store: WorkspaceStore,
    repository: RepositoryName,
    commit: CommitId,
    prefix: Prefix,
    disk: LocalDisk,
    on_transfer: OnTransfer,
) -> int:
    """Write the objects below a prefix into an empty directory; return how many.

    What cannot be written whole is refused before anything is; `disk` is the directory's.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(
            f"{directory} is no empty directory", hint="export into an empty or a new one"
        )
    entries = store.list_objects(repository, commit, prefix.key)
    layout = map_objects(prefix, entries, folds_case=disk.folds_case, normalises=disk.normalises)
    ensure_room(
        layout.total_bytes,
        directory,
        disk,
        store=store,
        what="the export",
        hint="free disk space, export to another disk, or narrow the prefix",
    )
    directory.mkdir(parents=True, exist_ok=True)
    for path in layout.markers:
        (directory / path).mkdir(parents=True, exist_ok=True)
    store.checkout(repository, commit, layout.files, directory, on_transfer)
    return len(layout.files)


def diff_commits(
    store: WorkspaceStore, repository: RepositoryName, old: CommitId, new: CommitId
) -> ChangeSet:
    """What changed between two commits, by the store's own checksums."""

    def tree(commit: CommitId) -> dict[RelativePath, Digest]:
        return {
            RelativePath(entry.path): Digest(entry.checksum)
            for entry in store.list_objects(repository, commit)
        }

    return diff_trees(tree(old), tree(new))

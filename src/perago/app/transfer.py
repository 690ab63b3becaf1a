"""Moves whole directories in and out of a store, outside any task: for people and set-up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perago.domain.changes import ChangeSet, diff_trees
from perago.domain.errors import UsageError
from perago.domain.ids import (
    BranchName,
    CommitId,
    Digest,
    ObjectPath,
    RelativePath,
    RepositoryName,
)
from perago.domain.publication import Commit
from perago.domain.workspace import Prefix, map_objects
from perago.ports import LocalTree, OnTransfer, WorkspaceStore


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
    writes = {
        prefix.join(path): file
        for path, file in tree.files.items()
        if (entry := existing.get(prefix.join(path))) is None
        or entry.size != file.size
        or entry.checksum != file.digest
    }
    if not writes and not deletes:
        return None
    return store.commit_changes(
        repository,
        request.branch,
        writes=writes,
        deletes=deletes,
        message=request.message,
        metadata={},
        on_transfer=on_transfer,
    )


def export_directory(
    directory: Path,
    *,
    store: WorkspaceStore,
    repository: RepositoryName,
    commit: CommitId,
    prefix: Prefix,
    on_transfer: OnTransfer,
) -> int:
    """Write the objects below a prefix into an empty directory; return how many."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(
            f"{directory} is no empty directory", hint="export into an empty or a new one"
        )
    layout = map_objects(prefix, store.list_objects(repository, commit, prefix.key))
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

"""The workspace of one attempt on this machine: brought here, and compared afterwards."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perago.app.room import ensure_room
from perago.authoring import WorkspaceSpec
from perago.domain.changes import ChangeSet, diff_trees, refuse_hook_changes
from perago.domain.ids import Digest, ObjectPath, RelativePath
from perago.domain.workspace import WorkspaceLayout, WorkspaceRef, map_objects
from perago.ports import AttemptDirectory, LocalFile, LocalTree, OnTransfer, WorkspaceStore


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalChanges:
    """What the body changed, in the terms of the store."""

    writes: dict[ObjectPath, LocalFile]
    deletes: list[ObjectPath]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to publish."""
        return not self.writes and not self.deletes


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The input ref's files below a prefix, in an attempt directory."""

    spec: WorkspaceSpec
    ref: WorkspaceRef
    directory: AttemptDirectory
    layout: WorkspaceLayout
    digests: dict[RelativePath, Digest]

    def find_changes(self) -> LocalChanges:
        """Compare the files with what was checked out; a change of a hook is refused."""
        tree = self.directory.scan()
        changes = self._diff(tree)
        refuse_hook_changes(changes, self.spec.prefix)
        join = self.spec.prefix.join
        return LocalChanges(
            writes={join(path): tree.files[path] for path in changes.written},
            deletes=[
                *(join(path) for path in changes.removed),
                *(self.layout.markers[path].path for path in changes.removed_markers),
            ],
        )

    def _diff(self, tree: LocalTree) -> ChangeSet:
        files = diff_trees(self.digests, {path: file.digest for path, file in tree.files.items()})
        markers = frozenset(self.layout.markers.keys() - tree.directories)
        return replace(files, removed_markers=markers)


def check_out(
    spec: WorkspaceSpec,
    ref: WorkspaceRef,
    directory: AttemptDirectory,
    *,
    store: WorkspaceStore,
    copies: int,
    on_transfer: OnTransfer,
) -> Checkout:
    """Bring the files here; `copies` is how often they will lie on this disk."""
    entries = store.list_objects(ref.repository, ref.ref, spec.prefix.key)
    layout = map_objects(
        spec.prefix,
        entries,
        folds_case=directory.folds_case,
        normalises=directory.normalises,
    )
    ensure_room(
        layout.total_bytes * copies,
        directory.root,
        directory,
        store=store,
        what="the workspace",
        hint="free disk space, move PERAGO_WORKSPACE_ROOT, or narrow the task's prefix",
    )
    directory.make_directories(layout.markers)
    digests = store.checkout(ref.repository, ref.ref, layout.files, directory.files, on_transfer)
    directory.remember(digests)
    # The store knows of one copy only: what it kept meanwhile may lie where the others will.
    store.make_room(directory.root, layout.total_bytes * (copies - 1))
    return Checkout(spec=spec, ref=ref, directory=directory, layout=layout, digests=digests)

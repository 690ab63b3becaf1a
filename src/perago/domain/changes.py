"""What changed between two trees.

A tree maps a path to the digest of its content, so a change is a change of content: a touched
file is none. Laws: equal trees give an empty change set, and `apply(diff(a, b), a) == b`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perago.domain.errors import UnpublishableFileError
from perago.domain.ids import Digest, ObjectPath, RelativePath
from perago.domain.workspace import ACTIONS_DIRECTORY, Prefix

Tree = Mapping[RelativePath, Digest]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSet:
    """The paths to write and the paths to delete, disjoint.

    `removed_markers` are directories that are gone and for which the input ref holds an empty
    `dir/` object.
    """

    added: Tree
    modified: Tree
    removed: frozenset[RelativePath]
    removed_markers: frozenset[RelativePath] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to publish."""
        return not (self.added or self.modified or self.removed or self.removed_markers)

    @property
    def written(self) -> Tree:
        """Every path whose content must be stored."""
        return {**self.added, **self.modified}


def diff_trees(old: Tree, new: Tree) -> ChangeSet:
    """Compare two trees by content."""
    return ChangeSet(
        added={path: digest for path, digest in new.items() if path not in old},
        modified={path: digest for path, digest in new.items() if old.get(path, digest) != digest},
        removed=frozenset(old.keys() - new.keys()),
    )


def apply_changes(changes: ChangeSet, tree: Tree) -> dict[RelativePath, Digest]:
    """The tree after the changes."""
    kept = {path: digest for path, digest in tree.items() if path not in changes.removed}
    return {**kept, **changes.written}


def hook_change_error(changed: ObjectPath, path: str) -> UnpublishableFileError:
    """For a change of the repository's hooks; `path` is what the attempt calls the file."""
    return UnpublishableFileError(
        f"a task may not change {changed}: {ACTIONS_DIRECTORY} holds the repository's hooks",
        path=path,
        hint="change hooks by hand on the branch, outside a task; or narrow the prefix",
    )


def refuse_hook_changes(changes: ChangeSet, prefix: Prefix) -> None:
    """Raise when a task edited the repository's hooks."""
    for path in sorted({*changes.written, *changes.removed, *changes.removed_markers}):
        if prefix.join(path).startswith(ACTIONS_DIRECTORY):
            raise hook_change_error(prefix.join(path), path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCount:
    """How many files an attempt wrote and deleted."""

    written: int
    deleted: int

"""What a body wrote straight to its staging branch, judged before it is published.

In a direct workspace nobody stands between the body and the branch: it has whatever its writers
left there, and whatever the body wrote by itself. Invariant: what is kept lies below the prefix, is
nothing that only the writer needed, has a name that a local file can have, and no file of it is a
directory of another.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from perago.domain.changes import ChangeCount, hook_change_error
from perago.domain.errors import UnpublishableFileError
from perago.domain.ids import ObjectPath
from perago.domain.workspace import ACTIONS_DIRECTORY, Prefix, explain_unsafe_path, is_reserved

_WORK_DIRECTORY = re.compile(r"_temporary|__magic|(__magic_job|\.spark-staging)-.+")
"""Where the committers of Hadoop and Spark work: their own names and no others."""

_JOB_MARKER = "_SUCCESS"


class ChangeKind(StrEnum):
    """What became of an object."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """One object that differs from the input ref; `size` is 0 for one that is gone."""

    path: ObjectPath
    kind: ChangeKind
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedChanges:
    """Changes that may be published, once the strays are removed.

    `fingerprint` is the same for the same kept changes, by names and sizes: what is committed must
    be what was judged.
    """

    strays: tuple[ObjectPath, ...]
    kept: ChangeCount
    fingerprint: str

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to publish."""
        return not (self.kept.written or self.kept.deleted)


def judge_changes(changes: Iterable[ObjectChange], prefix: Prefix) -> JudgedChanges:
    """Tell strays from what is to be kept; refuse what a task may not write, naming it.

    `changes` are against the input ref, in the order of their paths.
    """
    strays: list[ObjectPath] = []
    written = deleted = 0
    above: list[ObjectPath] = []
    seen = hashlib.sha256()
    for change in changes:
        if is_stray(change, prefix):
            strays.append(change.path)
            continue
        _refuse_unpublishable(change, prefix)
        if change.kind is ChangeKind.REMOVED:
            deleted += 1
        else:
            written += 1
            _refuse_file_above(change.path, above)
        mark = f"{change.kind}\0{change.path}\0{change.size}\0"
        seen.update(mark.encode("utf-8", "backslashreplace"))
    return JudgedChanges(
        strays=tuple(strays),
        kept=ChangeCount(written=written, deleted=deleted),
        fingerprint=seen.hexdigest(),
    )


def is_stray(change: ObjectChange, prefix: Prefix) -> bool:
    """Whether a writer left it for itself; only what the input ref does not hold can be one."""
    if change.kind is not ChangeKind.ADDED:
        return False
    if change.path.endswith("/"):
        # Wherever it is: S3A puts a marker also where it emptied the directory above the prefix.
        return change.size == 0
    if not prefix.contains(change.path):
        return False
    relative = prefix.relative(change.path)
    *directories, name = relative.split("/")
    return (
        name == _JOB_MARKER
        or is_reserved(relative)
        or any(_WORK_DIRECTORY.fullmatch(directory) for directory in directories)
    )


def _refuse_unpublishable(change: ObjectChange, prefix: Prefix) -> None:
    path = change.path
    if path.startswith(ACTIONS_DIRECTORY):
        raise hook_change_error(path, path)
    if not prefix.contains(path):
        raise UnpublishableFileError(
            f"the body {_done(change)} {path}, which is outside of its prefix {prefix}",
            path=path,
            hint="write below workspace.uri_out(), or widen the task's prefix",
        )
    if is_reserved(prefix.relative(path)):
        raise UnpublishableFileError(
            f"the body {_done(change)} {path}, a name that is Perago's own",
            path=path,
            hint="leave it as it is: no task sees it, and none may change it",
        )
    reason = _explain_unusable(change, prefix)
    if change.kind is not ChangeKind.REMOVED and reason is not None:
        raise UnpublishableFileError(
            f"the body wrote {path!r}, which no task could check out again: {reason}",
            path=path,
            hint="write it under a plain name",
        )


def _refuse_file_above(path: ObjectPath, above: list[ObjectPath]) -> None:
    """Refuse a path below a file; `above` are those before it whose names begin it, in order.

    `a-b` comes between `a` and `a/b`, so the last one alone would not do; but whatever begins a
    later path begins all in between.
    """
    while above and not path.startswith(above[-1]):
        above.pop()
    for file in above:
        if path.startswith(f"{file}/"):
            raise UnpublishableFileError(
                f"the body wrote {file!r} and, below it, {path!r}: a file cannot be a directory "
                "too, so no task could check them out again",
                path=path,
                hint="give one of them another name",
            )
    if not path.endswith("/"):
        above.append(path)


def _explain_unusable(change: ObjectChange, prefix: Prefix) -> str | None:
    relative = prefix.relative(change.path)
    if change.path.endswith("/"):
        if change.size > 0:
            return "its name ends in '/' but it has content"
        if not relative:
            return None  # the marker of the prefix itself
    return explain_unsafe_path(relative.removesuffix("/"))


def _done(change: ObjectChange) -> str:
    return "removed" if change.kind is ChangeKind.REMOVED else "wrote"

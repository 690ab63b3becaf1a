"""Workspaces, prefixes, and which names may become files.

Invariant: a `RelativePath` made here, joined to a directory, never leaves that directory,
and `Prefix.join(Prefix.relative(x)) == x`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from perago.domain.errors import DeclarationError, UnmappableObjectError
from perago.domain.ids import (
    BranchName,
    CommitId,
    Digest,
    ObjectPath,
    RelativePath,
    RepositoryName,
)

MARKER_NAME = ".perago-attempt.json"
"""The marker beside the body's directory; at a prefix's root the name is never mapped."""

ACTIONS_DIRECTORY = "_lakefs_actions/"
"""Where a repository keeps its hooks. Tasks do not edit them."""

MAX_PART_BYTES = 255
"""The longest file name that every supported file system takes."""

MAX_PATH_BYTES = 1024
"""The longest object name that lakeFS takes; also short enough for any file system's paths."""

_BLOCK_BYTES = 4096
"""What nearly every file system gives out at once; a million tiny files take 4 GB with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceRef:
    """The immutable input commit of an attempt, and the branch that it may advance."""

    repository: RepositoryName
    branch: BranchName
    ref: CommitId


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectEntry:
    """One object as a listing shows it.

    `checksum` is the store's own and only comparable within that store. `digest` is Perago's hash
    of the content where the store keeps one; it may be a claim of whoever wrote the object, so a
    checkout checks it. `address` is the store's name for the stored content, never used again for
    other content, where it has such a name.
    """

    path: ObjectPath
    size: int
    checksum: str
    digest: Digest | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class Prefix:
    """The part of a repository that a task sees: `""` for all of it, else `a/b/`."""

    key: str = ""

    def __post_init__(self) -> None:
        if self.key and (not self.key.endswith("/") or explain_unsafe_path(self.key[:-1])):
            raise ValueError(f"{self.key!r} is no normalised prefix: use Prefix.parse")

    @classmethod
    def parse(cls, text: str) -> Prefix:
        """Normalise a declared prefix; `/` is the whole repository."""
        trimmed = text.strip("/")
        if text == "" or "//" in text:
            raise DeclarationError(
                f"prefix {text!r} has an empty part",
                hint='use "/" for the whole repository, or a path such as "audio/render"',
            )
        if not trimmed:
            return cls()
        for part in trimmed.split("/"):
            reason = explain_unsafe_part(part)
            if reason is not None:
                raise DeclarationError(
                    f"prefix {text!r} is refused: {reason}",
                    hint='a prefix is a plain path such as "audio/render"',
                )
        return cls(trimmed + "/")

    def contains(self, path: str) -> bool:
        """Whether an object lies below the prefix (`a/b` does not contain `a/b-old/x`)."""
        return path.startswith(self.key)

    def relative(self, path: ObjectPath) -> str:
        """Cut the prefix off; the rest is not yet checked."""
        if not self.contains(path):
            raise ValueError(f"{path!r} is not below prefix {self.key!r}")
        return path[len(self.key) :]

    def join(self, path: str) -> ObjectPath:
        """The object that a workspace-relative path stands for."""
        return ObjectPath(self.key + path)

    def __str__(self) -> str:
        return self.key.rstrip("/") or "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceLayout:
    """How the objects below a prefix lie in a directory.

    `markers` are the directories for which the input ref holds an empty `dir/` object.
    """

    files: Mapping[RelativePath, ObjectEntry] = field(default_factory=dict)
    markers: Mapping[RelativePath, ObjectEntry] = field(default_factory=dict)

    @property
    def total_bytes(self) -> int:
        """What a checkout will take on disk, files only."""
        return sum(disk_use(entry.size) for entry in self.files.values())


def disk_use(size: int) -> int:
    """What a file of this size takes on disk: whole blocks, and one for an empty file's name.

    Not `st_blocks`: some file systems tell it only after they have written the file out.
    """
    return max(1, -(-size // _BLOCK_BYTES)) * _BLOCK_BYTES


def explain_unsafe_part(part: str) -> str | None:
    """Say why one part of a path cannot be a file name, or None when it can."""
    if part == "":
        return "a part of its name is empty"
    if part in (".", ".."):
        return f"a part of its name is {part!r}"
    if any(unicodedata.category(character) == "Cc" for character in part):
        return "its name has a control character"
    try:
        encoded = part.encode("utf-8")
    except UnicodeEncodeError:
        return "its name is not valid UTF-8"
    if len(encoded) > MAX_PART_BYTES:
        return f"a part of its name is longer than {MAX_PART_BYTES} bytes"
    return None


def explain_unsafe_path(path: str) -> str | None:
    """Say why a `/`-separated path cannot be a file below a directory, or None when it can."""
    if path.startswith("/"):
        return "its name begins with '/'"
    for part in path.split("/"):
        reason = explain_unsafe_part(part)
        if reason is not None:
            return reason
    if len(path.encode("utf-8")) > MAX_PATH_BYTES:
        return f"its name is longer than {MAX_PATH_BYTES} bytes"
    return None


def is_reserved(path: str) -> bool:
    """Whether a workspace-relative path is Perago's own: neither downloaded nor published."""
    return path.partition("/")[0] == MARKER_NAME


def map_objects(
    prefix: Prefix,
    entries: Iterable[ObjectEntry],
    *,
    folds_case: bool = False,
    normalises: bool = False,
) -> WorkspaceLayout:
    """Lay the objects below a prefix out as files, or refuse naming the first that cannot be one.

    `folds_case` says that the local file system takes `A` and `a` for the same name, `normalises`
    that it takes two canonically equal names, such as a composed and a decomposed `é`.
    """
    files: dict[RelativePath, ObjectEntry] = {}
    markers: dict[RelativePath, ObjectEntry] = {}
    for entry in entries:
        relative = prefix.relative(entry.path)
        if is_reserved(relative):
            continue
        if not entry.path.endswith("/"):
            files[_checked(relative, entry)] = entry
        elif entry.size > 0:
            raise UnmappableObjectError(entry.path, "its name ends in '/' but it has content")
        elif relative != "":
            # "" would be the directory marker of the prefix itself, which needs no directory.
            markers[_checked(relative[:-1], entry)] = entry
    _refuse_file_beside_directory(files, markers)
    if folds_case or normalises:
        _refuse_twins(files, markers, folds_case=folds_case)
    return WorkspaceLayout(files=files, markers=markers)


def parents_of(path: str) -> Iterable[str]:
    """The directories above a path, nearest first: `a/b/c` gives `a/b`, `a`."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _checked(relative: str, entry: ObjectEntry) -> RelativePath:
    reason = explain_unsafe_path(relative)
    if reason is not None:
        raise UnmappableObjectError(entry.path, reason)
    return RelativePath(relative)


def _refuse_file_beside_directory(
    files: Mapping[RelativePath, ObjectEntry], markers: Mapping[RelativePath, ObjectEntry]
) -> None:
    directories = set(markers)
    for path in (*files, *markers):
        directories.update(RelativePath(parent) for parent in parents_of(path))
    clash = min(directories & files.keys(), default=None)
    if clash is not None:
        raise UnmappableObjectError(
            files[clash].path, "other objects lie below it, and a file cannot be a directory too"
        )


def _refuse_twins(
    files: Mapping[RelativePath, ObjectEntry],
    markers: Mapping[RelativePath, ObjectEntry],
    *,
    folds_case: bool,
) -> None:
    seen: dict[str, str] = {}
    for path in sorted({*files, *markers}):
        for name in (path, *parents_of(path)):
            plain = unicodedata.normalize("NFD", name)
            # Folding may compose anew: what is folded is decomposed once more.
            folded = unicodedata.normalize("NFD", plain.casefold()) if folds_case else plain
            twin = seen.setdefault(folded, name)
            if twin != name:
                entry = files.get(path) or markers[path]
                raise UnmappableObjectError(
                    entry.path,
                    f"this file system takes {name!r} and {twin!r} for the same name",
                )

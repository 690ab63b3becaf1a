"""What a lakeFS server answers, as Perago's values; refused where no such server answers that.

The SDK checks types and required fields. Here is checked what else others rely on: ids are ids,
sizes are sizes, a listing stays below its prefix, and a time is one that can be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TypeVar

from lakefs_sdk.models.commit import Commit as SdkCommit
from lakefs_sdk.models.diff import Diff
from lakefs_sdk.models.object_stats import ObjectStats
from lakefs_sdk.models.ref import Ref

from perago.adapters.lakefs.answers import Asked, explain_nonsense
from perago.adapters.lakefs.names import is_commit_id
from perago.adapters.lakefs.part_upload import find_digest
from perago.domain.ids import BranchName, CommitId, ObjectPath, TreeId
from perago.domain.publication import Commit
from perago.domain.staged_changes import ChangeKind, ObjectChange
from perago.domain.workspace import ObjectEntry
from perago.ports import Branch

_SERVER_METADATA = ".lakefs."
"""What the server adds to a commit of its own accord begins with this."""

_MOST_BYTES = 1 << 63
_EARLIEST = datetime(1, 1, 3, tzinfo=UTC)
_LATEST = datetime(9999, 12, 29, tzinfo=UTC)
"""Two days from what a date can be, so that it can be shown in any time zone."""

_Found = TypeVar("_Found")
_Value = TypeVar("_Value")


class _UnlikelyError(Exception):
    """The text says what no server answers."""


def read_one(asked: Asked, read: Callable[[_Found], _Value], found: _Found) -> _Value:
    """A part of an answer as a value."""
    try:
        return read(found)
    except _UnlikelyError as error:
        raise explain_nonsense(asked, str(error)) from None


def read_each(
    asked: Asked, read: Callable[[_Found], _Value], found: Iterable[_Found]
) -> Iterator[_Value]:
    """The parts of a listing as values."""
    return (read_one(asked, read, one) for one in found)


def to_commit(found: SdkCommit) -> Commit:
    """A commit as the server shows it."""
    return Commit(
        id=_commit_id(found.id),
        parents=tuple(_commit_id(parent) for parent in found.parents),
        tree=TreeId(found.meta_range_id),
        message=found.message,
        created_at=_time(found.creation_date),
        metadata={
            key: value
            for key, value in (found.metadata or {}).items()
            if not key.startswith(_SERVER_METADATA)
        },
    )


def to_head(found: Ref) -> CommitId:
    """Where a branch stands."""
    return _commit_id(found.commit_id)


def to_branch(found: Ref, *, hidden: bool) -> Branch:
    """A branch of a listing."""
    return Branch(name=BranchName(found.id), head=to_head(found), hidden=hidden)


def to_entry(found: ObjectStats, *, prefix: str) -> ObjectEntry:
    """An object of a listing below a prefix."""
    if not found.path.startswith(prefix):
        raise _UnlikelyError(f"object {found.path!r} does not begin with {prefix!r}")
    return ObjectEntry(
        path=ObjectPath(found.path),
        size=_size(found.size_bytes),
        checksum=found.checksum,
        digest=find_digest(found.metadata or {}),
        address=found.physical_address,
    )


def to_change(found: Diff) -> ObjectChange:
    """One difference of a branch or of two commits."""
    try:
        kind = ChangeKind(found.type)
    except ValueError:
        raise _UnlikelyError(f"object {found.path!r} is {found.type!r}") from None
    size = 0 if kind is ChangeKind.REMOVED else _size(found.size_bytes)
    return ObjectChange(path=ObjectPath(found.path), kind=kind, size=size)


def _commit_id(text: str) -> CommitId:
    if not is_commit_id(text):
        raise _UnlikelyError(f"{_short(text)} is no commit id")
    return CommitId(text)


def _size(size: int | None) -> int:
    if size is not None and not 0 <= size < _MOST_BYTES:
        raise _UnlikelyError(f"{_short(hex(size))} is no size")
    return size or 0


def _time(seconds: int) -> datetime:
    """Whoever commits may name any time, so one that is absurd damages no branch: it is shown as
    the nearest that a date can be.
    """
    earliest, latest = int(_EARLIEST.timestamp()), int(_LATEST.timestamp())
    return datetime.fromtimestamp(min(max(seconds, earliest), latest), UTC)


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:80] + "…")

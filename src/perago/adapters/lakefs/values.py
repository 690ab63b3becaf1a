"""What a lakeFS server answers, as Perago's values; refused where no such server answers that.

Here is checked all that others rely on: required fields are there and of their type, texts are
valid Unicode, ids are ids, sizes are sizes, a listing stays below its prefix, and a time is one
that can be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TypeVar

from perago.adapters.lakefs.answers import Asked, explain_nonsense
from perago.adapters.lakefs.names import is_commit_id
from perago.adapters.lakefs.part_upload import find_digest
from perago.domain.ids import BranchName, CommitId, ObjectPath, TreeId
from perago.domain.outcome import JsonObject, JsonValue
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


# -- parts of an answer


def read_part(asked: Asked, read: Callable[[_Found], _Value], found: _Found) -> _Value:
    """A part of an answer as a value."""
    try:
        return read(found)
    except _UnlikelyError as error:
        raise explain_nonsense(asked, str(error)) from None


def read_each(
    asked: Asked, read: Callable[[_Found], _Value], found: Iterable[_Found]
) -> Iterator[_Value]:
    """The parts of a listing as values."""
    return (read_part(asked, read, one) for one in found)


def read_objects(found: JsonValue) -> list[JsonObject]:
    """A list of objects."""
    if not isinstance(found, list):
        raise _UnlikelyError("no list")
    for one in found:
        if not isinstance(one, dict):
            raise _UnlikelyError("a list of something else than objects")
    return [one for one in found if isinstance(one, dict)]


def read_text(found: JsonObject, name: str) -> str:
    """A required field that is a text."""
    value = found.get(name)
    if not isinstance(value, str):
        raise _UnlikelyError(f"`{name}` is no text")
    return _require_unicode(value)


def read_number(found: JsonObject, name: str) -> int:
    """A required field that is a whole number."""
    value = found.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _UnlikelyError(f"`{name}` is no whole number")
    return value


def read_flag(found: JsonObject, name: str) -> bool:
    """A required field that is true or false."""
    value = found.get(name)
    if not isinstance(value, bool):
        raise _UnlikelyError(f"`{name}` is neither true nor false")
    return value


def read_object(found: JsonObject, name: str) -> JsonObject:
    """A field that is an object; empty where it is missing."""
    value = found.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _UnlikelyError(f"`{name}` is no object")
    return value


def _read_metadata(found: JsonObject) -> dict[str, str]:
    metadata = read_object(found, "metadata")
    return {_require_unicode(name): read_text(metadata, name) for name in metadata}


def _read_size(found: JsonObject) -> int:
    return 0 if found.get("size_bytes") is None else _size(read_number(found, "size_bytes"))


# -- Perago's values


def to_commit(found: JsonObject) -> Commit:
    """A commit as the server shows it."""
    parents = found.get("parents")
    if not isinstance(parents, list):
        raise _UnlikelyError("`parents` is no list")
    return Commit(
        id=_commit_id(found.get("id")),
        parents=tuple(_commit_id(parent) for parent in parents),
        tree=TreeId(read_text(found, "meta_range_id")),
        message=read_text(found, "message"),
        created_at=_time(read_number(found, "creation_date")),
        metadata={
            key: value
            for key, value in _read_metadata(found).items()
            if not key.startswith(_SERVER_METADATA)
        },
    )


def to_head(found: JsonObject) -> CommitId:
    """Where a branch stands."""
    return _commit_id(found.get("commit_id"))


def to_branch(found: JsonObject, *, hidden: bool) -> Branch:
    """A branch of a listing."""
    return Branch(name=BranchName(read_text(found, "id")), head=to_head(found), hidden=hidden)


def to_reference(found: JsonObject) -> CommitId:
    """The commit that a merge made."""
    return _commit_id(found.get("reference"))


def is_object(found: JsonObject) -> bool:
    """Whether an item of a listing is an object, and not the place of several."""
    kind = read_text(found, "path_type")
    if kind not in ("object", "common_prefix"):
        raise _UnlikelyError(f"an item of a listing is {_short(kind)}")
    return kind == "object"


def to_entry(found: JsonObject, *, prefix: str) -> ObjectEntry:
    """An object of a listing below a prefix."""
    path = read_text(found, "path")
    if not path.startswith(prefix):
        raise _UnlikelyError(f"object {path!r} does not begin with {prefix!r}")
    return ObjectEntry(
        path=ObjectPath(path),
        size=_read_size(found),
        checksum=read_text(found, "checksum"),
        digest=find_digest(_read_metadata(found)),
        address=read_text(found, "physical_address"),
    )


def to_change(found: JsonObject) -> ObjectChange:
    """One difference of a branch or of two commits."""
    path, told = read_text(found, "path"), read_text(found, "type")
    try:
        kind = ChangeKind(told)
    except ValueError:
        raise _UnlikelyError(f"object {path!r} is {told!r}") from None
    size = 0 if kind is ChangeKind.REMOVED else _read_size(found)
    return ObjectChange(path=ObjectPath(path), kind=kind, size=size)


def _require_unicode(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _UnlikelyError("a text that is not valid Unicode") from None
    return text


def _commit_id(found: object) -> CommitId:
    if not isinstance(found, str) or not is_commit_id(found):
        raise _UnlikelyError(f"{_short(str(found))} is no commit id")
    return CommitId(found)


def _size(size: int) -> int:
    if not 0 <= size < _MOST_BYTES:
        raise _UnlikelyError(f"{_short(hex(size))} is no size")
    return size


def _time(seconds: int) -> datetime:
    """Whoever commits may name any time, so one that is absurd damages no branch: it is shown as
    the nearest that a date can be.
    """
    earliest, latest = int(_EARLIEST.timestamp()), int(_LATEST.timestamp())
    return datetime.fromtimestamp(min(max(seconds, earliest), latest), UTC)


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:80] + "…")

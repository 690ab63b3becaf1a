"""Commits as canonical text.

Invariant: a commit's id is the hash of its record, and its record is all there is to it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from blake3 import blake3

from perago.domain.ids import CommitId, TreeId
from perago.domain.publication import Commit

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def build_record(
    *,
    tree: TreeId,
    parents: Sequence[CommitId],
    message: str,
    metadata: Mapping[str, str],
    created_at: datetime,
) -> str:
    """The record of a new commit, unlike any other: two equal changes are two commits."""
    return json.dumps(
        {
            "created_at": created_at.astimezone(UTC).isoformat(),
            "message": message,
            "metadata": dict(metadata),
            "nonce": secrets.token_hex(16),
            "parents": list(parents),
            "tree": tree,
        },
        sort_keys=True,
        separators=(",", ":"),
    )


def identify_record(record: str) -> CommitId:
    """The id of the commit with this record."""
    return CommitId(blake3(record.encode()).hexdigest())


def read_record(commit: CommitId, record: str) -> Commit:
    """The commit that a record describes."""
    fields = json.loads(record)
    return Commit(
        id=commit,
        parents=tuple(CommitId(parent) for parent in fields["parents"]),
        tree=TreeId(fields["tree"]),
        message=fields["message"],
        created_at=datetime.fromisoformat(fields["created_at"]),
        metadata=fields["metadata"],
    )


def microseconds(moment: datetime) -> int:
    """A moment as whole microseconds since 1970, exactly."""
    return (moment - _EPOCH) // timedelta(microseconds=1)

"""What an upload in parts needs of a server, however the parts get there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from perago.domain.ids import BranchName, Digest, ObjectPath, RepositoryName

DIGEST_KEY = "perago-blake3"
"""Under which name an object's metadata holds Perago's hash of its content."""

GATEWAY_DIGEST_KEY = f"X-Amz-Meta-{DIGEST_KEY}"
"""What the S3 gateway makes of that name."""

CONTENT_TYPE = "application/octet-stream"
"""One type for all objects: it is part of an object's identity on the server."""

_COMPLETION_PATIENCE = 10
_COMPLETION_BYTES_PER_SECOND = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class NewObject:
    """An object that is to be written to a branch."""

    repository: RepositoryName
    branch: BranchName
    path: ObjectPath
    size: int
    digest: Digest

    @property
    def what(self) -> str:
        """What writing it is, in the words of an error."""
        return f"upload {self.path!r} to {self.repository}/{self.branch}"

    @property
    def missing(self) -> str:
        """What it means when the server finds nothing to write to."""
        return f"no branch {self.branch!r} in repository {self.repository!r}"

    def completion_seconds(self, timeout_seconds: float) -> float:
        """How long its parts may take to become one; the local block store copies them all."""
        return timeout_seconds * _COMPLETION_PATIENCE + self.size / _COMPLETION_BYTES_PER_SECOND


def find_digest(metadata: Mapping[str, str]) -> Digest | None:
    """Perago's hash of an object's content, where its writer left one."""
    claimed = metadata.get(DIGEST_KEY) or metadata.get(GATEWAY_DIGEST_KEY)
    return Digest(claimed) if claimed else None


class PartUpload(Protocol):
    """An upload in parts that a server has begun; parts may be sent from many threads.

    The object is there when it is completed, and not before. A part that is sent again takes the
    place of the one before.
    """

    def send(self, number: int, body: Iterable[bytes], size: int) -> str:
        """Send one part, counted from 1; the ETag that it got."""
        ...

    def complete(self, etags: Sequence[str]) -> None:
        """Make the object of all parts."""
        ...

    def abort(self) -> None:
        """Have the server forget the parts; sent once."""
        ...

"""Moves the bytes of single objects to and from a lakeFS server, over its own API.

Why the API and not the S3 gateway: ADR 0007. Bodies are streamed both ways, and the server keeps
the MD5 of all that is uploaded this way, whatever its size, so that there is a content hash to
check against.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from perago.adapters.lakefs.answers import Asked, translated
from perago.adapters.lakefs.block_store import PRESIGNED_BYTES, BlockStore, Presigning
from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.lakefs.gateway_upload import GatewayUpload
from perago.adapters.lakefs.part_upload import (
    CONTENT_TYPE,
    DIGEST_KEY,
    NewObject,
    PartUpload,
    find_digest,
)
from perago.adapters.lakefs.presigned_upload import PresignedUpload
from perago.adapters.lakefs.raw_api import RawApi
from perago.adapters.lakefs.wire import ObjectBody, Wire
from perago.adapters.patience import Patience
from perago.domain.ids import BranchName, CommitId, Digest, ObjectPath, RepositoryName


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """What the server says of an object."""

    size: int
    checksum: str
    digest: Digest | None


class DataPlane:
    """The connections for objects; safe to use from many threads."""

    def __init__(self, connection: LakeFSConnection, wire: Wire, patience: Patience) -> None:
        self.patience = patience
        self._connection = connection
        self._wire = wire
        self._api = RawApi(connection, wire)
        self._blocks = BlockStore(connection) if connection.presign else None

    @property
    def part_bytes(self) -> int:
        """How large a part is, unless there were too many."""
        return self._connection.part_bytes

    @contextmanager
    def open(
        self,
        repository: RepositoryName,
        ref: CommitId | BranchName,
        path: ObjectPath,
        *,
        size: int = 0,
    ) -> Iterator[ObjectBody]:
        """One object's body, not yet read; its size, where known, says which way to take."""
        asked = Asked(
            what=f"download {path!r} of {ref} in {repository!r}",
            missing=f"no object {path!r} in {ref} of repository {repository!r}",
        )
        where = ("repositories", repository, "refs", ref, "objects")
        query = {"path": path}
        if self._blocks is None or size < PRESIGNED_BYTES or not self._presigning.downloads:
            with self._wire.open(self._api.request("GET", where, query), asked) as body:
                yield body
            return
        signing = self._api.request("GET", where, query | {"presign": "true"})
        answer = self._wire.send(signing, asked, expected=302)
        with translated(asked):
            address = answer.headers["Location"]
        with self._blocks.open(address, asked) as body:
            yield body

    def upload(
        self,
        repository: RepositoryName,
        branch: BranchName,
        path: ObjectPath,
        body: bytes | Iterable[bytes],
        *,
        size: int,
        digest: Digest,
    ) -> str:
        """Write one object to a branch; the MD5 of what the server received."""
        target = NewObject(
            repository=repository, branch=branch, path=path, size=size, digest=digest
        )
        # Not a change in the sense of `Asked`: the same upload may be sent again, and nobody sees
        # it before the branch's commit.
        asked = Asked(what=target.what, missing=target.missing)
        request = self._api.request(
            "POST",
            ("repositories", target.repository, "branches", target.branch, "objects"),
            {"path": target.path},
            body=body,
            headers={
                "Content-Length": str(target.size),
                "Content-Type": CONTENT_TYPE,
                f"x-lakefs-meta-{DIGEST_KEY}": target.digest,
            },
        )
        found = self._api.send(request, asked, expected=201)
        with translated(asked):
            return str(found["checksum"])

    def wants_parts(self, size: int) -> bool:
        """Whether a file of this size goes up in parts."""
        return size >= self._connection.multipart_bytes or (
            self._blocks is not None and size >= PRESIGNED_BYTES and self._presigning.uploads
        )

    def begin_parts(self, target: NewObject) -> PartUpload:
        """Begin an upload in parts; once, and it may be tried again."""
        if self._blocks is not None and self._presigning.uploads:
            presigned = PresignedUpload(
                self._api,
                self._blocks,
                target,
                timeout_seconds=self._connection.timeout_seconds,
            )
            presigned.begin()
            return presigned
        upload = GatewayUpload(self._connection, self._wire, target)
        upload.begin()
        return upload

    def stat(self, target: NewObject) -> StoredObject:
        """Look at an object on the branch it was written to."""
        asked = Asked(
            what=f"look at {target.path!r} on {target.repository}/{target.branch}",
            missing=f"no object {target.path!r} on {target.repository}/{target.branch}",
        )
        request = self._api.request(
            "GET",
            ("repositories", target.repository, "refs", target.branch, "objects", "stat"),
            {"path": target.path, "user_metadata": "true"},
        )
        found = self._api.send(request, asked, expected=200)
        with translated(asked):
            size, metadata = found["size_bytes"], found.get("metadata")
            return StoredObject(
                size=size if isinstance(size, int) else -1,
                checksum=str(found["checksum"]),
                digest=find_digest(metadata if isinstance(metadata, dict) else {}),
            )

    def close(self) -> None:
        """Give the connections to the block store back; the server's are the caller's."""
        if self._blocks is not None:
            self._blocks.close()

    @cached_property
    def _presigning(self) -> Presigning:
        """Several threads may ask at once, and get the same answer."""
        asked = Asked(what="read the server's configuration", missing="no configuration")
        request = self._api.request("GET", ("config",), {})
        found = self.patience.retry(lambda: self._api.send(request, asked, expected=200))
        storage = found.get("storage_config")
        if not isinstance(storage, dict):
            return Presigning()
        return Presigning(
            downloads=storage.get("pre_sign_support") is True,
            uploads=storage.get("pre_sign_multipart_upload") is True,
        )

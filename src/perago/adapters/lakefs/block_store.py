"""Talks to the block store behind a lakeFS server, at addresses that the server signed.

Invariant: nothing of the lakeFS user's credentials is sent there, and neither an error nor a log
quotes an address, for whoever has it may use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from perago.adapters.lakefs.answers import Asked
from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.lakefs.wire import ObjectBody, Request, Wire

PRESIGNED_BYTES = 4 << 20
"""From this size on, fewer hands for the bytes outweigh the further calls: ADR 0007."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presigning:
    """What a server signs addresses for."""

    downloads: bool = False
    uploads: bool = False


class BlockStore:
    """A pool of connections of its own; safe to use from many threads."""

    def __init__(self, connection: LakeFSConnection) -> None:
        # It may have a public certificate where the lakeFS server has one of the house.
        self._wire = Wire(connection, trust_public=True)

    def open(self, address: str, asked: Asked) -> AbstractContextManager[ObjectBody]:
        """The content at an address, not yet read."""
        request = Request(
            method="GET", url=address, headers={"Accept-Encoding": "identity"}, speaks_s3=True
        )
        return self._wire.open(request, replace(asked, block_store=True))

    def put(self, address: str, body: Iterable[bytes], size: int, asked: Asked) -> str:
        """Store what is to be stored at an address; the ETag that it got."""
        headers = {"Content-Length": str(size)}
        request = Request(method="PUT", url=address, headers=headers, body=body, speaks_s3=True)
        answer = self._wire.send(request, replace(asked, block_store=True), expected=200)
        return answer.headers.get("ETag", "").strip('"')

    def close(self) -> None:
        """Give the connections back."""
        self._wire.close()

"""Uploads in parts straight to the block store, at addresses that the lakeFS server signed.

The server's bandwidth is not needed, but the block store must be within this host's reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perago.adapters.lakefs.answers import Asked, translated
from perago.adapters.lakefs.block_store import BlockStore
from perago.adapters.lakefs.part_upload import CONTENT_TYPE, DIGEST_KEY, NewObject
from perago.adapters.lakefs.raw_api import JSON, RawApi, as_json
from perago.adapters.lakefs.wire import Request
from perago.adapters.patience import once


class PresignedUpload:
    """One upload; a `PartUpload`."""

    def __init__(
        self,
        api: RawApi,
        blocks: BlockStore,
        target: NewObject,
        *,
        timeout_seconds: float,
    ) -> None:
        self._api = api
        self._blocks = blocks
        self._target = target
        self._timeout_seconds = timeout_seconds
        self._where = (
            *("repositories", target.repository, "branches", target.branch),
            *("staging", "pmpu"),
        )
        self._id = ""
        self._address = ""

    def begin(self) -> None:
        """Have the server begin; a lost answer leaves an upload without parts behind."""
        asked = self._asked("begin to ")
        request = self._request("POST", ())
        found = self._api.send(request, asked, expected=201)
        with translated(asked):
            self._id, self._address = str(found["upload_id"]), str(found["physical_address"])

    def send(self, number: int, body: Iterable[bytes], size: int) -> str:
        # A fresh address for every try: it expires, after 15 minutes by default.
        signing = self._request(
            "PUT", (self._id, "parts", str(number)), {"physical_address": self._address}
        )
        found = self._api.send(signing, self._asked(), expected=200)
        with translated(self._asked()):
            address = str(found["presigned_url"])
        return self._blocks.put(address, body, size, self._asked())

    def complete(self, etags: Sequence[str]) -> None:
        parts = [
            {"part_number": number, "etag": etag} for number, etag in enumerate(etags, start=1)
        ]
        request = self._request(
            "PUT",
            (self._id,),
            {
                "physical_address": self._address,
                "parts": parts,
                "user_metadata": {DIGEST_KEY: self._target.digest},
                "content_type": CONTENT_TYPE,
            },
            timeout_seconds=self._target.completion_seconds(self._timeout_seconds),
        )
        self._api.send(request, self._asked(), expected=200)

    def abort(self) -> None:
        request = self._request("DELETE", (self._id,), {"physical_address": self._address})
        asked = self._asked("give up to ")
        # Once: it is a courtesy, and a server that is away is not waited for upload by upload.
        once(lambda: self._api.send(request, asked, expected=204))

    def _asked(self, prefix: str = "") -> Asked:
        return Asked(what=prefix + self._target.what, missing=self._target.missing)

    def _request(
        self,
        method: str,
        where: Sequence[str],
        content: dict[str, object] | None = None,
        *,
        timeout_seconds: float | None = None,
    ) -> Request:
        return self._api.request(
            method,
            (*self._where, *where),
            {"path": self._target.path},
            body=None if content is None else as_json(content),
            headers=None if content is None else JSON,
            timeout_seconds=timeout_seconds,
        )

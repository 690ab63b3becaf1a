"""Uploads in parts through the S3 gateway, which every lakeFS server has at its endpoint."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import unescape
from urllib.parse import quote

from perago.adapters.lakefs.answers import Asked, explain_nonsense
from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.lakefs.part_upload import CONTENT_TYPE, DIGEST_KEY, NewObject
from perago.adapters.lakefs.signing import Signer
from perago.adapters.lakefs.wire import Request, Wire
from perago.adapters.patience import RetryAfter, TransientError, once
from perago.domain.errors import StoreUnavailableError

_UPLOAD_ID = re.compile(r"<UploadId>([^<]+)</UploadId>")


class GatewayUpload:
    """One upload; a `PartUpload`."""

    def __init__(self, connection: LakeFSConnection, wire: Wire, target: NewObject) -> None:
        self._wire = wire
        self._target = target
        self._signer = Signer(
            access_key_id=connection.access_key_id,
            secret_access_key=connection.secret_access_key,
        )
        self._timeout_seconds = connection.timeout_seconds
        where = (target.repository, target.branch, target.path)
        self._url = connection.endpoint + "".join(f"/{quote(part, safe='/')}" for part in where)
        self._id = ""

    def begin(self) -> None:
        """Have the server begin; all that a lost answer leaves behind is an empty record."""
        headers = {
            "Content-Type": CONTENT_TYPE,
            f"x-amz-meta-{DIGEST_KEY}": self._target.digest,
        }
        asked = self._asked("begin to ")
        request = self._request("POST", "uploads=", headers=headers)
        answer = self._wire.send(request, asked, expected=200)
        found = _UPLOAD_ID.search(answer.data.decode("utf-8", "replace"))
        if found is None:
            raise explain_nonsense(asked, "no upload id")
        self._id = quote(unescape(found[1]), safe="")

    def send(self, number: int, body: Iterable[bytes], size: int) -> str:
        query = f"partNumber={number}&uploadId={self._id}"
        request = self._request("PUT", query, headers={"Content-Length": str(size)}, body=body)
        answer = self._wire.send(request, self._asked(), expected=200)
        return answer.headers.get("ETag", "").strip('"')

    def complete(self, etags: Sequence[str]) -> None:
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
            for number, etag in enumerate(etags, start=1)
        )
        request = self._request(
            "POST",
            f"uploadId={self._id}",
            headers={"Content-Type": "application/xml"},
            body=f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode(),
            timeout_seconds=self._target.completion_seconds(self._timeout_seconds),
        )
        answer = self._wire.send(request, self._asked(), expected=200)
        if b"<Error>" in answer.data:
            # S3 says 200 before it begins what may take long and fail.
            raise TransientError(
                StoreUnavailableError(f"could not {self._target.what}: the server failed"),
                RetryAfter(),
            )

    def abort(self) -> None:
        request = self._request("DELETE", f"uploadId={self._id}")
        asked = self._asked("give up to ")
        # Once: it is a courtesy, and a server that is away is not waited for upload by upload.
        once(lambda: self._wire.send(request, asked, expected=204))

    def _asked(self, prefix: str = "") -> Asked:
        return Asked(what=prefix + self._target.what, missing=self._target.missing)

    def _request(
        self,
        method: str,
        query: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | Iterable[bytes] | None = None,
        timeout_seconds: float | None = None,
    ) -> Request:
        url = f"{self._url}?{query}"
        return Request(
            method=method,
            url=url,
            headers=self._signer.sign(method, url, headers or {}),
            body=body,
            timeout_seconds=timeout_seconds,
            speaks_s3=True,
        )

"""Signs requests to the S3 gateway of a lakeFS server (AWS Signature Version 4).

Bodies are not part of the signature: a part is checked by its MD5 on the way back, and hashing it
a second time before it is sent would cost more than all the rest of an upload.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit

_ALGORITHM = "AWS4-HMAC-SHA256"
_UNSIGNED = "UNSIGNED-PAYLOAD"
_SCOPE = ("us-east-1", "s3", "aws4_request")
"""lakeFS takes the region from the request and compares it with nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """Signs as one user."""

    access_key_id: str
    secret_access_key: str = field(repr=False)

    def sign(
        self, method: str, url: str, headers: Mapping[str, str], *, now: datetime | None = None
    ) -> dict[str, str]:
        """The headers with what authenticates them; the URL's path must be quoted already."""
        time = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
        parts = urlsplit(url)
        named = {name.lower(): value.strip() for name, value in headers.items()} | {
            "host": parts.netloc,
            "x-amz-content-sha256": _UNSIGNED,
            "x-amz-date": time,
        }
        signed = ";".join(sorted(named))
        request = "\n".join(
            (
                method,
                parts.path,
                _canonical_query(parts.query),
                *(f"{name}:{named[name]}" for name in sorted(named)),
                "",
                signed,
                _UNSIGNED,
            )
        )
        scope = "/".join((time[:8], *_SCOPE))
        text = "\n".join((_ALGORITHM, time, scope, hashlib.sha256(request.encode()).hexdigest()))
        signature = _hmac(self._key(time[:8]), text).hex()
        named["authorization"] = (
            f"{_ALGORITHM} Credential={self.access_key_id}/{scope}, "
            f"SignedHeaders={signed}, Signature={signature}"
        )
        return named

    def _key(self, day: str) -> bytes:
        key = f"AWS4{self.secret_access_key}".encode()
        for part in (day, *_SCOPE):
            key = _hmac(key, part)
        return key


def _canonical_query(query: str) -> str:
    pairs = sorted(parse_qsl(query, keep_blank_values=True))
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()

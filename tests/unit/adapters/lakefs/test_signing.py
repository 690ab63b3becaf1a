from __future__ import annotations

from datetime import UTC, datetime

from perago.adapters.lakefs.signing import Signer
from perago.adapters.lakefs.wire import Request

NOW = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)
SIGNER = Signer(access_key_id="the-key", secret_access_key="the-secret")


def sign(method: str = "PUT", url: str = "http://lake:8000/r/b/x?uploads=") -> dict[str, str]:
    return SIGNER.sign(method, url, {"X-Amz-Meta-Name": " value "}, now=NOW)


def test_everything_that_is_sent_is_named_as_signed() -> None:
    headers = sign()

    names = sorted(set(headers) - {"authorization"})
    assert headers["host"] == "lake:8000"
    assert headers["x-amz-date"] == "20240203T040506Z"
    assert headers["x-amz-meta-name"] == "value"
    assert f"SignedHeaders={';'.join(names)}, " in headers["authorization"]
    assert "Credential=the-key/20240203/us-east-1/s3/aws4_request, " in headers["authorization"]


def test_a_signature_is_good_for_one_request() -> None:
    made = {
        sign()["authorization"],
        sign("POST")["authorization"],
        sign(url="http://lake:8000/r/b/y?uploads=")["authorization"],
        sign(url="http://lake:8000/r/b/x?uploadId=1")["authorization"],
        sign(url="http://other:8000/r/b/x?uploads=")["authorization"],
    }

    assert len(made) == 5


def test_nothing_shows_the_secret() -> None:
    request = Request(method="PUT", url="http://x?X-Amz-Signature=abc", headers=sign())

    assert "the-secret" not in f"{SIGNER!r} {sign()}"
    assert "http" not in repr(request)
    assert "headers" not in repr(request)

"""The address of a lakeFS server, as people write it and as Perago keeps it."""

from __future__ import annotations

from urllib.parse import urlsplit

_API_PATH = "/api/v1"
"""What lakectl's own examples put behind the address; the client adds it by itself."""


def normalise_endpoint(text: str) -> str:
    """The address without a trailing slash or API path.

    Raises `ValueError`, which never quotes the text: it may hold a password.
    """
    url = text.strip().rstrip("/").removesuffix(_API_PATH).rstrip("/")
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError("is no URL") from error
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("must begin with http:// or https://, such as https://lakefs.example.com")
    if "@" in parts.netloc:
        raise ValueError(
            "must not hold credentials: give lakefs_access_key_id and lakefs_secret_access_key"
        )
    if parts.query or parts.fragment:
        raise ValueError("must end with the host, the port or a path")
    return url

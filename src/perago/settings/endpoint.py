"""The address of a server, as people write it and as Perago keeps it."""

from __future__ import annotations

from urllib.parse import urlsplit


def normalise_lakefs(text: str) -> str:
    """The address of a lakeFS server. lakectl's own examples have the API's path in it."""
    return _normalise(
        text,
        api_path="/api/v1",
        example="https://lakefs.example.com",
        credentials="lakefs_access_key_id and lakefs_secret_access_key",
    )


def normalise_conductor(text: str) -> str:
    """The address of a Conductor server; CONDUCTOR_SERVER_URL has the API's path in it."""
    return _normalise(
        text,
        api_path="/api",
        example="https://conductor.example.com/api",
        credentials="conductor_auth_key and conductor_auth_secret",
    )


def _normalise(text: str, *, api_path: str, example: str, credentials: str) -> str:
    """The address without a trailing slash or API path; the clients add that by themselves.

    Raises `ValueError`, which never quotes the text: it may hold a password.
    """
    url = text.strip().rstrip("/").removesuffix(api_path).rstrip("/")
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError("is no URL") from error
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(f"must begin with http:// or https://, such as {example}")
    if "@" in parts.netloc:
        raise ValueError(f"must not hold credentials: give {credentials}")
    if parts.query or parts.fragment:
        raise ValueError("must end with the host, the port or a path")
    return url

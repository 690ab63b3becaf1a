"""Which Conductor server, as whom, and how patiently."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

_API = "/api"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductorConnection:
    """Everything that a client of one server needs; its repr shows no secret.

    `url` may end in `/api` or not. Without `auth_key` and `auth_secret` no credentials are sent,
    which is what the open-source server wants. `timeout_seconds` bounds the wait for an answer; a
    long poll's own time comes on top. A call that may be repeated is, for `retry_seconds` after
    its first failure, and for at most five seconds where a lease runs meanwhile.
    """

    url: str
    auth_key: str | None = field(default=None, repr=False)
    auth_secret: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    timeout_seconds: float = 30.0
    retry_seconds: float = 30.0

    @property
    def api_url(self) -> str:
        """The address below which the API's resources are."""
        bare = self.url.strip().rstrip("/")
        return bare if bare.endswith(_API) else bare + _API

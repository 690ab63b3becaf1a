"""The lakeFS server of the tests: found, never built, for a build outlasts a test's time-out.

`perago dev build` builds it; `make test` does that first.
"""

from __future__ import annotations

import os
from functools import cache

from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.servers import LAKEFS, Binary, ThrowawayLakeFS, find_binary
from perago.settings import resolve_settings

MISSING = "needs a lakeFS server: put one on PATH, or run `perago dev build`, which needs Go"


@cache
def find_lakefs() -> Binary | None:
    """The server's binary, on PATH or in the user's cache."""
    settings = resolve_settings().settings
    return find_binary(LAKEFS, cache=settings.cache_directory, environment=os.environ)


def connection_to(server: ThrowawayLakeFS) -> LakeFSConnection:
    """What a client of this server needs."""
    return LakeFSConnection(
        endpoint=server.endpoint,
        access_key_id=server.access_key_id,
        secret_access_key=server.secret_access_key,
    )


def settings_of(server: ThrowawayLakeFS) -> dict[str, str]:
    """The environment in which `perago` works on this server."""
    return {
        "PERAGO_STORE": "lakefs",
        "PERAGO_LAKEFS_ENDPOINT": server.endpoint,
        "PERAGO_LAKEFS_ACCESS_KEY_ID": server.access_key_id,
        "PERAGO_LAKEFS_SECRET_ACCESS_KEY": server.secret_access_key,
    }

"""Asking a lakeFS server whether it is there, without its SDK and without a proxy in between."""

from __future__ import annotations

from base64 import b64encode
from http.client import HTTPConnection, HTTPException

from perago.adapters.servers.lakefs_state import LakeFSState
from perago.adapters.servers.processes import LOOPBACK

_CALL_SECONDS = 5.0


def ask_server(state: LakeFSState, path: str, *, authorized: bool = False) -> int | None:
    """The status of an answer, or None where there is none."""
    headers = {}
    if authorized:
        pair = f"{state.access_key_id}:{state.secret_access_key}".encode()
        headers["Authorization"] = f"Basic {b64encode(pair).decode()}"
    connection = HTTPConnection(LOOPBACK, state.port, timeout=_CALL_SECONDS)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()

"""Asking a server whether it is there, without its SDK and without a proxy in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException

from perago.adapters.servers.processes import LOOPBACK

_CALL_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server said."""

    status: int
    body: bytes


def ask_server(port: int, path: str, *, headers: Mapping[str, str] | None = None) -> Answer | None:
    """A server's answer, or None where there is none."""
    connection = HTTPConnection(LOOPBACK, port, timeout=_CALL_SECONDS)
    try:
        connection.request("GET", path, headers=dict(headers or {}))
        response = connection.getresponse()
        return Answer(status=response.status, body=response.read())
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()

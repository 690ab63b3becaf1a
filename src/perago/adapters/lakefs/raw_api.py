"""Lays out requests of lakeFS's own API in the user's name."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from perago.adapters.lakefs.answers import Asked, explain_nonsense, translated
from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.lakefs.wire import Request, Wire

API_PATH = "/api/v1"


class RawApi:
    """Lays out requests to one server and sends the small ones."""

    def __init__(self, connection: LakeFSConnection, wire: Wire) -> None:
        user = f"{connection.access_key_id}:{connection.secret_access_key}".encode()
        self._headers = {
            "Authorization": "Basic " + base64.b64encode(user).decode("ascii"),
            "Accept-Encoding": "identity",
            "User-Agent": "perago",
        }
        self._base = connection.endpoint + API_PATH
        self._wire = wire

    def request(
        self,
        method: str,
        where: Iterable[str],
        query: Mapping[str, str],
        *,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
        is_bounded: bool = False,
    ) -> Request:
        """A request in the user's name to the address that the segments make."""
        path = "".join(f"/{_quote(segment)}" for segment in where)
        values = "&".join(f"{name}={_quote(value)}" for name, value in query.items())
        return Request(
            method=method,
            url=f"{self._base}{path}" + (f"?{values}" if values else ""),
            headers=self._headers | dict(headers or {}),
            body=body,
            timeout_seconds=timeout_seconds,
            is_bounded=is_bounded,
        )

    def send(self, request: Request, asked: Asked, *, expected: int) -> dict[str, object]:
        """Send a request whose answer is one JSON object, or nothing."""
        response = self._wire.send(request, asked, expected=expected)
        with translated(asked):
            found = json.loads(response.data or b"{}")
        if not isinstance(found, dict):
            raise explain_nonsense(asked, "no object")
        return found


def _quote(text: str) -> str:
    # A name that is no UTF-8 names nothing on a server, which is for the server to say.
    return quote(text, safe="", errors="surrogatepass")


def as_json(content: Mapping[str, object]) -> bytes:
    """The body of a call; it wants the header `JSON`."""
    return json.dumps(content).encode()


JSON = {"Content-Type": "application/json"}

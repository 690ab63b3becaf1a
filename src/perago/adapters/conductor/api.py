"""The calls of one Conductor server, by how often they may be sent."""

from __future__ import annotations

from collections.abc import Callable

from perago.adapters.conductor.answers import Asked, explain_nonsense
from perago.adapters.conductor.connection import ConductorConnection
from perago.adapters.conductor.wire import Query, Wire, parse_json
from perago.adapters.patience import Patience, once
from perago.domain.outcome import JsonObject, JsonValue

_BRIEF_SECONDS = 5.0
"""How long a call is repeated while a lease runs: whoever waits for it has others to keep."""


class ConductorApi:
    """Sends requests; safe to use from many threads."""

    def __init__(self, connection: ConductorConnection) -> None:
        self._wire = Wire(connection)
        self._patience = Patience(connection.retry_seconds)
        self._brief = Patience(min(connection.retry_seconds, _BRIEF_SECONDS))

    @property
    def server(self) -> str:
        """Where the server is, without anything secret."""
        return self._wire.server

    def read(self, path: str, asked: Asked, *, query: Query | None = None) -> JsonValue:
        """Read; again, when it fails in a way that may pass."""
        data = self._patience.retry(lambda: self._wire.send("GET", path, asked, query=query))
        return parse_json(data, asked)

    def read_briefly(self, path: str, asked: Asked) -> JsonObject:
        """Read an object while a lease runs."""
        data = self._brief.retry(lambda: self._wire.send("GET", path, asked))
        return as_object(parse_json(data, asked), asked)

    def change(
        self, method: str, path: str, asked: Asked, *, query: Query | None = None, body: bytes = b""
    ) -> bytes:
        """Make a change that may be made twice with the effect of once."""
        return self._patience.retry(
            lambda: self._wire.send(method, path, asked, query=query, body=body or None)
        )

    def change_briefly(self, path: str, asked: Asked, body: bytes) -> None:
        """The same, posted while a lease runs."""
        self._brief.retry(lambda: self._wire.send("POST", path, asked, body=body))

    def look_and_change_briefly(
        self, look_path: str, path: str, asked: Asked, decide: Callable[[JsonObject], bytes | None]
    ) -> None:
        """Read an object, and post what is made of it, if anything is; again from the beginning
        when either fails in a way that may pass.
        """

        def look_and_change() -> None:
            data = self._wire.send("GET", look_path, asked)
            body = decide(as_object(parse_json(data, asked), asked))
            if body is not None:
                self._wire.send("POST", path, asked, body=body)

        self._brief.retry(look_and_change)

    def post_once(
        self, path: str, asked: Asked, body: bytes, *, content_type: str = "application/json"
    ) -> bytes:
        """Post what a second request would do a second time."""
        return once(
            lambda: self._wire.send("POST", path, asked, body=body, content_type=content_type)
        )

    def take(self, path: str, asked: Asked, *, query: Query, wait_seconds: float) -> bytes:
        """Get what the server then counts as given: never asked for again."""
        return once(
            lambda: self._wire.send("GET", path, asked, query=query, wait_seconds=wait_seconds)
        )

    def close(self) -> None:
        """Give the connections back."""
        self._wire.close()


def as_object(found: JsonValue, asked: Asked) -> JsonObject:
    """The answer, which must be one JSON object."""
    if not isinstance(found, dict):
        raise explain_nonsense(asked, "no object")
    return found


def as_objects(found: JsonValue, asked: Asked) -> list[JsonObject]:
    """The answer, which must be a list of objects."""
    if not isinstance(found, list):
        raise explain_nonsense(asked, "no list")
    return [as_object(one, asked) for one in found]

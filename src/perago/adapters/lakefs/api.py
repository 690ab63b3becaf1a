"""Sends the calls to a lakeFS server's control plane, each with a time-out.

Invariant: `read` and `repeat` may send a call several times, `change` and `act` send it once.
Why not the official SDK: ADR 0020.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from perago.adapters.lakefs.answers import Asked, explain_nonsense, translated
from perago.adapters.lakefs.calls import Call
from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.lakefs.raw_api import JSON, RawApi, as_json
from perago.adapters.lakefs.values import read_flag, read_objects, read_part, read_text
from perago.adapters.lakefs.wire import Answer, Wire
from perago.adapters.patience import Patience, once
from perago.domain.outcome import JsonObject, JsonValue

PAGE = 1000
"""The most that the server lists in one answer."""


class LakeFSApi:
    """The three ways to send a call to one server; safe to use from many threads."""

    def __init__(self, connection: LakeFSConnection, wire: Wire, patience: Patience) -> None:
        self.endpoint = connection.endpoint
        self._raw = RawApi(connection, wire)
        self._wire = wire
        self._timeout = connection.timeout_seconds
        self._patience = patience

    def read(self, asked: Asked, call: Call) -> JsonObject:
        """Send a call that changes nothing; again, when it fails in a way that may pass."""
        return self._patience.retry(lambda: self._ask(asked, self._timeout, call))

    def read_list(self, asked: Asked, call: Call) -> list[JsonObject]:
        """The same for a call whose answer is a list of objects."""

        def ask() -> list[JsonObject]:
            found = _parse(asked, self.send(asked, self._timeout, call))
            return read_part(asked, read_objects, found)

        return self._patience.retry(ask)

    def read_pages(self, asked: Asked, call: Call) -> Iterator[JsonObject]:
        """Every item of a listing, page by page; one that leads back to itself is refused."""
        after = ""
        seen = {after}
        while True:
            page = self.read(asked, call.page(after, PAGE))
            yield from read_part(asked, read_objects, page.get("results"))
            following = page.get("pagination")
            if not isinstance(following, dict):
                raise explain_nonsense(asked, "a listing without `pagination`")
            if not read_part(asked, lambda found: read_flag(found, "has_more"), following):
                return
            after = read_part(asked, lambda found: read_text(found, "next_offset"), following)
            if after in seen:
                raise explain_nonsense(asked, "the listing begins again and has no end")
            seen.add(after)

    def read_first(self, asked: Asked, call: Call) -> JsonObject | None:
        """The first item of a listing, if it has any."""
        page = self.read(asked, call.page("", 1))
        return next(iter(read_part(asked, read_objects, page.get("results"))), None)

    def repeat(self, asked: Asked, call: Call) -> Answer:
        """Send a change that may be made twice with the effect of once."""
        return self._patience.retry(lambda: self.send(asked, self._timeout, call))

    def change(self, asked: Asked, timeout_seconds: float, call: Call) -> JsonObject:
        """Send a change exactly once; an answer that is lost, or none, is an
        `OutcomeUnknownError`.
        """
        return once(lambda: self._ask(asked, timeout_seconds, call))

    def act(self, asked: Asked, timeout_seconds: float, call: Call) -> Answer:
        """The same, for a change whose answer is empty."""
        return once(lambda: self.send(asked, timeout_seconds, call))

    def send(self, asked: Asked, timeout_seconds: float, call: Call) -> Answer:
        """Send a call once; what may pass is raised as `TransientError`."""
        request = self._raw.request(
            call.method,
            call.where,
            call.query,
            body=None if call.content is None else as_json(call.content),
            headers=None if call.content is None else JSON,
            timeout_seconds=timeout_seconds,
            is_bounded=True,
        )
        return self._wire.send(
            request, replace(asked, endpoint=self.endpoint), expected=call.status
        )

    def _ask(self, asked: Asked, timeout_seconds: float, call: Call) -> JsonObject:
        return parse_object(asked, self.send(asked, timeout_seconds, call))


def parse_object(asked: Asked, answer: Answer) -> JsonObject:
    """The answer, which must be one JSON object."""
    found = _parse(asked, answer)
    if not isinstance(found, dict):
        raise explain_nonsense(asked, "no object")
    return found


def _parse(asked: Asked, answer: Answer) -> JsonValue:
    if not answer.data:
        raise explain_nonsense(asked, "it is empty")
    with translated(asked):
        found: JsonValue = json.loads(answer.data)
    return found

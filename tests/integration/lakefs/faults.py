"""The faults of a connection, by what they leave behind on the server."""

from __future__ import annotations

from tests.fault_proxy import (
    Action,
    Answer,
    CorruptByte,
    CutBefore,
    CutResponse,
    DelayResponse,
    LoseResponse,
    Truncate,
)

FOREVER = 600
SERVER_ERROR = Answer(status=500, body=b'{"message": "boom"}')
TOO_MANY = Answer(status=429, headers=(("Retry-After", "0"),))

NOT_DONE: dict[str, Action] = {
    "500": SERVER_ERROR,
    "429": TOO_MANY,
    "cut before": CutBefore(),
}
"""Faults that keep the server from doing what it was asked."""

DONE: dict[str, Action] = {
    "lost response": LoseResponse(),
    "cut response": CutResponse(after=3),
    "late response": DelayResponse(seconds=FOREVER),
}
"""Faults that hide the answer: the server has done its work."""

NOT_AN_ANSWER: dict[str, Action] = {
    "half an answer": Truncate(to=3),
    "a garbled answer": CorruptByte(offset=0),
}
"""Complete on the wire, but nothing that a lakeFS server would say."""

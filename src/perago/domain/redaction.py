"""Hiding secrets in what leaves Perago: log lines, reasons, spans, and what commands print.

Invariants: a text keeps everything but the secrets; JSON stays JSON; bytes keep their length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from perago.domain.outcome import Completed, JsonValue, Outcome

HIDDEN: Final = "(not shown)"

_SHORTEST_SECRET = 4
"""Hiding a text of one or two letters would only spoil every line."""

_SHORTEST_BEGINNING = 6
"""So much of a secret at the very end of a text is taken for one that was cut there."""

_CUT_MARK = "… (cut)"

_ONCE = rf"(?!{re.escape(HIDDEN)})"
"""What was hidden already stays as it is."""

_TOKENS = re.compile(
    r"((?:X-Amz-(?:Signature|Credential|Security-Token)|Signature|sig|token)=)"
    rf"{_ONCE}[^&;\s\"'\\]+",
    re.IGNORECASE,
)
"""What makes an address a key to what it names."""

_AUTHORIZATION = re.compile(
    r"((?:X-)?Authorization\\*[\"']?\s*[:=]\s*\\*[\"']?(?:(?:Bearer|Basic)\s+)?)"
    rf"{_ONCE}(?!(?:Bearer|Basic)\s)[^\s\"',;\\]+",
    re.IGNORECASE,
)
_PASSWORD = re.compile(rf"(://[^\s/@:\"'<>\\]*:){_ONCE}[^\s/@\"'<>\\]+(?=@)")
_LONE_TOKEN = re.compile(r"(://)[^\s/@:\"'<>\\]{16,}(?=@)")
"""In the place of a user's name, which is shorter."""

_PATTERNS = (
    # Nearly no text has a mark, and the patterns cost more than the rest of a line.
    (("x-amz-", "signature=", "sig=", "token="), _TOKENS),
    (("authorization",), _AUTHORIZATION),
    (("://",), _PASSWORD),
    (("://",), _LONE_TOKEN),
)


@dataclass(frozen=True, slots=True)
class Redactor:
    """Hides the secrets that it knows, and what looks like a token, a signature or a password.

    Every spelling of a secret counts as one: plain, in JSON, in bytes.
    """

    secrets: tuple[str, ...] = field(default=(), repr=False)
    _in_json: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _in_bytes: tuple[bytes, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = _longest_first(one for one in self.secrets if len(one) >= _SHORTEST_SECRET)
        in_json = _longest_first(
            json.dumps(one, ensure_ascii=ascii_only)[1:-1]
            for one in known
            for ascii_only in (False, True)
        )
        in_bytes = {one.encode("utf-8", "backslashreplace") for one in (*known, *in_json)}
        object.__setattr__(self, "secrets", known)
        object.__setattr__(self, "_in_json", in_json)
        object.__setattr__(self, "_in_bytes", tuple(sorted(in_bytes, key=len, reverse=True)))

    def apply(self, text: str) -> str:
        """The text without secrets; also without the beginning of one that was cut at its end."""
        return _hide_beginning(self._hide(text, self.secrets), self.secrets)

    def apply_in_json(self, text: str) -> str:
        """The text of a JSON document without secrets; it stays one."""
        return self._hide(text, self._in_json)

    def apply_to_json(self, value: JsonValue) -> JsonValue:
        """The document without secrets in its texts; keys are kept."""
        match value:
            case str():
                return self.apply(value)
            case list():
                return [self.apply_to_json(entry) for entry in value]
            case dict():
                return {key: self.apply_to_json(entry) for key, entry in value.items()}
            case _:
                return value

    def apply_to_outcome(self, outcome: Outcome) -> Outcome:
        """The outcome with a reason that can be reported; an output is the body's own."""
        if isinstance(outcome, Completed):
            return outcome
        return replace(outcome, reason=self.apply(outcome.reason))

    def find_spans(self, data: bytes) -> list[tuple[int, int]]:
        """Where secrets are in bytes that may be text: begin and end of each."""
        spans = [span for secret in self._in_bytes for span in _find_all(data, secret)]
        # One character for each byte: the places in the text are those in the bytes.
        text = data.decode("latin-1")
        lowered = text.lower()
        for marks, pattern in _PATTERNS:
            if any(mark in lowered for mark in marks):
                spans += [(match.end(1), match.end()) for match in pattern.finditer(text)]
        return spans

    @property
    def longest(self) -> int:
        """The length in bytes of the longest spelling that it knows."""
        return max((len(one) for one in self._in_bytes), default=0)

    def _hide(self, text: str, known: tuple[str, ...]) -> str:
        for secret in known:
            text = text.replace(secret, HIDDEN)
        lowered = text.lower()
        for marks, pattern in _PATTERNS:
            if any(mark in lowered for mark in marks):
                text = pattern.sub(rf"\1{HIDDEN}", text)
        return text


def _longest_first(texts: Iterable[str]) -> tuple[str, ...]:
    # A secret may be part of another. By length and then text: equal redactors are equal.
    return tuple(sorted(set(texts), key=lambda text: (-len(text), text)))


def _hide_beginning(text: str, known: tuple[str, ...]) -> str:
    body = text.removesuffix(_CUT_MARK)
    for secret in known:
        beginning = secret[:_SHORTEST_BEGINNING]
        at = body.find(beginning, max(0, len(body) - len(secret) + 1))
        while at >= 0 and len(beginning) == _SHORTEST_BEGINNING:
            if secret.startswith(body[at:]):
                return body[:at] + HIDDEN + text[len(body) :]
            at = body.find(beginning, at + 1)
    return text


def _find_all(data: bytes, secret: bytes) -> Iterable[tuple[int, int]]:
    begin = data.find(secret)
    while begin >= 0:
        yield begin, begin + len(secret)
        begin = data.find(secret, begin + len(secret))


NOTHING_KNOWN: Final = Redactor()
"""Hides what looks like a token, a signature or a password, and knows no secret."""

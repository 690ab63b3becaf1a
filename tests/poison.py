"""JSON that a server, a file or a pipe can carry and that hurts whoever reads it carelessly.

`draw_poison` makes one from a seeded generator: the same seed gives the same poison, so a failure
can be repeated. Each is bytes that stand where one JSON value is expected, and says of what kind it
is.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class PoisonKind(StrEnum):
    """What is wrong with it."""

    DEPTH = "depth"
    DIGITS = "digits"
    NOT_A_NUMBER = "not a number"
    SURROGATES = "surrogates"
    HUGE_TEXT = "huge text"
    HUGE_NAME = "huge name"
    CONTROLS = "controls"
    DUPLICATE_NAMES = "duplicate names"
    WRONG_TYPE = "wrong type"
    DATES = "dates"
    UNKNOWN_WORD = "unknown word"
    NOT_UTF8 = "not UTF-8"
    TRUNCATED = "truncated"
    NO_JSON = "no JSON"
    WIDE = "wide"


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison:
    """Bytes in the place of a JSON value."""

    kind: PoisonKind
    data: bytes


def draw_poison(random_: random.Random, kind: PoisonKind | None = None) -> Poison:
    """One poison, of the given or of any kind."""
    chosen = kind or random_.choice(list(PoisonKind))
    return Poison(kind=chosen, data=_MAKERS[chosen](random_))


def _depth(random_: random.Random) -> bytes:
    levels = random_.choice([199, 201, 250, 480, 700, 900, 1000, 3000, 6_000])
    match random_.randrange(4):
        case 0:
            return b"[" * levels + b"]" * levels
        case 1:
            return b'{"a":' * levels + b"1" + b"}" * levels
        case 2:
            return b'[{"\\"]}":' * levels + b"null" + b"}]" * levels
        case _:
            return b'{"a":[' * levels + b"]}" * levels


def _digits(random_: random.Random) -> bytes:
    digits = "9" * random_.choice([20, 400, 1000, 1001, 4300, 4301, 50_000])
    number = random_.choice([digits, f"-{digits}", f"0.{digits}", f"1e{digits[:6]}", f"{digits}.5"])
    return random_.choice(["{}", "[{}]", '{{"n":{}}}']).format(number).encode()


def _not_a_number(random_: random.Random) -> bytes:
    word = random_.choice(["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
    return random_.choice(["{}", "[1,{}]", '{{"x":{}}}']).format(word).encode()


def _surrogates(random_: random.Random) -> bytes:
    half = random_.choice(["\\ud800", "\\udfff", "\\ude00\\ud83d", "x\\udbffx"])
    return random_.choice(['"{}"', '{{"{}":1}}', '["{}"]']).format(half).encode()


def _huge_text(random_: random.Random) -> bytes:
    letter = random_.choice(["x", "\\u0000", '\\"', "\\\\", "ß"])
    return f'"{letter * random_.choice([1_000, 30_000])}"'.encode()


def _huge_name(random_: random.Random) -> bytes:
    return b'{"' + b"k" * random_.choice([50_000, 50_001]) + b'":1}'


def _controls(random_: random.Random) -> bytes:
    text = random_.choice(
        ["\x1b[2J", "\r\nforged", "\x9b31m", "\u202eabc", "../../etc", "\x00", ""]
    )
    return json.dumps(random_.choice([text, {text: text}, [text]])).encode()


def _duplicate_names(random_: random.Random) -> bytes:
    return random_.choice(
        [b'{"a":1,"a":{"a":2,"a":3}}', b'{"taskId":"1","taskId":"2"}', b'{"a":[],"a":null}']
    )


def _wrong_type(random_: random.Random) -> bytes:
    return random_.choice(
        [b"true", b"false", b"null", b"1", b"-1", b"1.5", b'"1"', b"[]", b"{}", b'[["a"]]', b"1e3"]
    )


def _dates(random_: random.Random) -> bytes:
    return str(
        random_.choice(
            [-1, 0, 2**31, 2**53, 2**62, 2**63, 2**64, 10**17, 253402300800000, -(2**63), 1e300]
        )
    ).encode()


def _unknown_word(random_: random.Random) -> bytes:
    return random_.choice([b'"SLEEPING"', b'"in_progress"', b'""', b'" "', b'"\\u0049N_PROGRES"'])


def _not_utf8(random_: random.Random) -> bytes:
    return random_.choice(
        [b'"\xff\xfe"', b'"\xc3"', b'"\xed\xa0\x80"', b'{"\xf8":1}', b'"\x80abc"']
    )


def _truncated(random_: random.Random) -> bytes:
    return random_.choice([b'"abc', b"[1,2", b'{"a":', b'{"a"', b"[", b'"\\', b'"\\u12', b"-"])


def _no_json(random_: random.Random) -> bytes:
    return random_.choice(
        [b"tru", b"'a'", b"{a:1}", b"[1 2]", b"01", b"<html>", b"]", b"\x00", b"+1"]
    )


def _wide(random_: random.Random) -> bytes:
    size = random_.choice([1_000, 5_000])
    return b"[" + b",".join([random_.choice([b"[]", b"{}", b"0", b'""'])] * size) + b"]"


_MAKERS: dict[PoisonKind, Callable[[random.Random], bytes]] = {
    PoisonKind.DEPTH: _depth,
    PoisonKind.DIGITS: _digits,
    PoisonKind.NOT_A_NUMBER: _not_a_number,
    PoisonKind.SURROGATES: _surrogates,
    PoisonKind.HUGE_TEXT: _huge_text,
    PoisonKind.HUGE_NAME: _huge_name,
    PoisonKind.CONTROLS: _controls,
    PoisonKind.DUPLICATE_NAMES: _duplicate_names,
    PoisonKind.WRONG_TYPE: _wrong_type,
    PoisonKind.DATES: _dates,
    PoisonKind.UNKNOWN_WORD: _unknown_word,
    PoisonKind.NOT_UTF8: _not_utf8,
    PoisonKind.TRUNCATED: _truncated,
    PoisonKind.NO_JSON: _no_json,
    PoisonKind.WIDE: _wide,
}

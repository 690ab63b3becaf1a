"""What JSON may hold so that every part of Perago, and of Conductor, can carry it.

JSON that came from elsewhere is read with the functions of this module. Invariant: whatever the
bytes, the answer is a value or a `ValueError` with a reason that can be shown, never another
exception; and nothing here recurses, so that the depth of a value is no danger to the stack.

A name that an object has twice counts with its last value, as for Conductor itself. Texts are
bounded only by the size of an answer.
"""

from __future__ import annotations

import json
import math
import re

from perago.domain.outcome import JsonObject, JsonValue

MAX_DEPTH = 200
"""Lists and objects inside each other. Python's stack ends at some 1,000 frames, and code that
walks through a value needs several for each level. Conductor takes 1,000 levels."""

MAX_DIGITS = 1_000
"""Digits of a number: Conductor's JSON library takes no longer one, and Python none over 4,300."""

MAX_NAME_CHARACTERS = 50_000
"""Characters of a name in an object: the same library's bound."""

_ENVELOPE_DEPTH = 20
"""What a server's answer may have around a value."""
_UNREADABLE = "(unreadable)"
_SHOWN_CHARACTERS = 80
_LARGEST = 10**MAX_DIGITS
# One that does not end reaches to the end: looking for another there would be quadratic. Nothing is
# ever given back (`*+`): to remember where it could be takes memory for each escape.
_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_TOKEN = re.compile(_TEXT + rb"|[][{},]", re.DOTALL)
_MEMBER = re.compile(rb"(?P<name>" + _TEXT + rb")\s*:(?P<value>.*)", re.DOTALL)
_LONG_NUMBER = rb"(?<![0-9])[0-9]{%d,}[0-9.eE+-]*" % (MAX_DIGITS + 1)
_TEXT_OR_LONG_NUMBER = re.compile(_TEXT + b"|" + _LONG_NUMBER, re.DOTALL)


def read_json(data: bytes) -> JsonValue:
    """The value that the bytes say, also one that is unusable; `ValueError` where there is none.

    Ask `explain_unusable_json` of every part that is to be used. Deeper than can be read, a part is
    cut off; a number that is too long becomes another that is too long; what is not UTF-8 becomes
    lone surrogates. So that a part of an answer can be used although another part cannot.
    """
    try:
        return _decode(data)
    except ValueError as error:
        spoiled = error
    shallow = _TEXT_OR_LONG_NUMBER.sub(_shorten_number, _cut_depth(data))
    try:
        return _decode(shallow.decode("utf-8", "surrogateescape"))
    except ValueError:
        raise spoiled from None


def split_json(data: bytes) -> list[bytes]:
    """The complete items of one list, or members of one object, as bytes that need not be JSON.

    What follows the first thing out of place is left out.
    """
    items: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(data):
        mark = data[token.start() : token.end()]
        if mark in (b"[", b"{"):
            depth += 1
            if depth == 1:
                start = token.end()
        elif mark in (b"]", b"}", b",") and depth == 1:
            items.append(data[start : token.start()].strip())
            start = token.end()
        if mark in (b"]", b"}"):
            depth -= 1
            if depth < 1:
                break
    return [item for item in items if item]


def read_members(data: bytes) -> tuple[JsonObject, dict[str, str]]:
    """Those members of one object that can be read, and why the others cannot, by name."""
    members: JsonObject = {}
    unread: dict[str, str] = {}
    for item in split_json(data):
        found = _MEMBER.match(item)
        if found is None:
            continue
        try:
            name = str(read_json(found["name"]))
        except ValueError:
            continue
        try:
            members[name] = read_json(found["value"])
            unread.pop(name, None)
        except ValueError as error:
            members.pop(name, None)
            unread[name] = str(error)
    return members, unread


def explain_unusable_json(value: object) -> str | None:
    """Why a value cannot be carried, and where; None where it can."""
    level: list[object] = [value]
    depth = 0
    while level:
        below: list[object] = []
        for one in level:
            if isinstance(one, dict | list):
                names = one if isinstance(one, dict) else ()
                if depth == MAX_DEPTH or any(map(_explain_name, names)):
                    return _find_problem(value)
                below += one.values() if isinstance(one, dict) else one
            elif _explain_scalar(one) is not None:
                return _find_problem(value)
        level = below
        depth += 1
    return None


def is_larger_json(value: object, characters: int) -> bool:
    """Whether a value has more characters than that, about, as JSON; looks no further than needed.

    A value may hold one part in many places, so that it is far larger than what it was made of.
    """
    rest: list[object] = [value]
    left = characters
    while rest:
        one = rest.pop()
        left -= 2
        if isinstance(one, str):
            left -= len(one)
        elif isinstance(one, dict):
            left -= sum(len(name) + 4 if isinstance(name, str) else 4 for name in one)
            rest += one.values()
        elif isinstance(one, list):
            rest += one
        if left < 0 or len(rest) > characters:
            return True
    return False


def build_unreadable(reason: str) -> JsonObject:
    """What stands for an object that is there, and that cannot be used or is kept elsewhere."""
    return {_UNREADABLE: reason}


def find_unreadable(value: JsonObject) -> str | None:
    """Why the object that was here is not, where `build_unreadable` made this one."""
    reason = value.get(_UNREADABLE)
    return reason if isinstance(reason, str) and len(value) == 1 else None


def _decode(data: bytes | str) -> JsonValue:
    try:
        found: JsonValue = json.loads(data)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error.msg}, at {error.pos:,}") from None
    except ValueError:
        # Python's own bound on whole numbers.
        raise ValueError(f"it has a number of more than {MAX_DIGITS:,} digits") from None
    except RecursionError:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels") from None
    return found


def _cut_depth(data: bytes) -> bytes:
    """The same JSON with null for everything below the deepest level that is read."""
    deepest = MAX_DEPTH + _ENVELOPE_DEPTH
    kept: list[bytes] = []
    depth = position = 0
    for token in _TOKEN.finditer(data):
        mark = data[token.start()]
        if mark in b"[{":
            depth += 1
            if depth == deepest + 1:
                kept += (data[position : token.start()], b"null")
        elif mark in b"]}":
            if depth == deepest + 1:
                position = token.end()
            depth -= 1
    # What is open still was cut off in the middle, and is no JSON anyway.
    return b"".join(kept) + data[position:] if kept else data


def _shorten_number(found: re.Match[bytes]) -> bytes:
    return found.group() if found.group().startswith(b'"') else str(_LARGEST).encode()


def _find_problem(value: object) -> str:
    """The first scalar or name that cannot be carried, with the way to it; else it is the depth."""
    rest: list[tuple[str, object]] = [("it", value)]
    for at, one in rest:
        problem = None
        if isinstance(one, dict):
            problem = next(filter(None, map(_explain_name, one)), None)
            rest += ((_shorten(f"{at}.{name}"), below) for name, below in one.items())
        elif isinstance(one, list):
            rest += ((_shorten(f"{at}[{index}]"), below) for index, below in enumerate(one))
        else:
            problem = _explain_scalar(one)
        if problem is not None:
            return f"{at.removeprefix('it.')} {problem}"
    return f"it is nested deeper than {MAX_DEPTH} levels"


def _explain_scalar(value: object) -> str | None:
    match value:
        case None | bool():
            return None
        case str():
            return "is a text that is not valid Unicode" if _is_broken(value) else None
        case int():
            long = not -_LARGEST < value < _LARGEST
            return f"is a number of more than {MAX_DIGITS:,} digits" if long else None
        case float():
            return None if math.isfinite(value) else f"is {value}, which JSON cannot say"
        case _:
            return f"is a {type(value).__name__}, which JSON cannot say"


def _explain_name(name: object) -> str | None:
    if not isinstance(name, str):
        return "has a name that is no text"
    if len(name) > MAX_NAME_CHARACTERS:
        return f"has a name of more than {MAX_NAME_CHARACTERS:,} characters"
    return "has a name that is not valid Unicode" if _is_broken(name) else None


def _is_broken(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _shorten(text: str) -> str:
    """So much of a path that it can be shown, whatever its names are."""
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
    return shown.encode("utf-8", "backslashreplace").decode()

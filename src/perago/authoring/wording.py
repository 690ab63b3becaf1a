"""How validation failures and near misses are put into words.

Invariant: no message repeats a value that was handed in.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from difflib import get_close_matches
from typing import get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

QUOTING_ERRORS = frozenset(
    {
        "assertion_error",
        "get_attribute_error",
        "iteration_error",
        "mapping_type",
        "union_tag_invalid",
        "url_parsing",
        "url_syntax_violation",
        "uuid_parsing",
        "value_error",
    }
)
"""Error types whose message may hold a piece of the value; no other of Pydantic's own does."""

PLAIN_ERRORS = frozenset(get_args(ErrorType)) - QUOTING_ERRORS

SHORTEST_SECRET = 4
"""A shorter value is none, and stands in many a harmless message: "at least 1 day"."""

REPHRASED = {
    "missing": "is missing",
    "extra_forbidden": "is not a known field",
    "unexpected_keyword_argument": "is not a known field",
}


def describe_validation(
    error: ValidationError, *, at: str, values: object, only: Container[int | str] | None = None
) -> list[str]:
    """Each failure of a validation as `place: what is wrong`, never with a value of `values`.

    `only` leaves out the failures of other fields, and of the object as a whole.
    """
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return [
        f"{_place(at, detail['loc'])}: {_wording(detail, values)}"
        for detail in details
        if only is None or (detail["loc"] and detail["loc"][0] in only)
    ]


def suggest(wrong: str, right: Iterable[str]) -> str:
    """` (did you mean 'x'?)`, or nothing."""
    close = get_close_matches(wrong, list(right), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def listed(names: Iterable[str]) -> str:
    """Names in quotes, or `none`."""
    return ", ".join(repr(name) for name in names) or "none"


def _place(at: str, location: tuple[int | str, ...]) -> str:
    return at + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)


def _wording(detail: ErrorDetails, values: object) -> str:
    kind, message = detail["type"], detail["msg"]
    if kind in REPHRASED:
        return REPHRASED[kind]
    if kind not in PLAIN_ERRORS and any(
        text in message for text in _texts(values) if len(text) >= SHORTEST_SECRET
    ):
        return f"is refused ({kind}); the message quotes the value and is left out"
    own_words = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return own_words if own_words != message else message[:1].lower() + message[1:]


def _texts(values: object) -> Iterator[str]:
    """Every value inside, in the forms in which a message would show it."""
    match values:
        case dict():
            for value in values.values():
                yield from _texts(value)
        case list():
            for value in values:
                yield from _texts(value)
        case str():
            yield from (values, repr(values)[1:-1])
        case None | bool():
            return
        case _:
            yield str(values)

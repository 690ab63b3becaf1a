"""`${…}` expressions in task inputs and workflow outputs, as Conductor evaluates them.

A text that is one expression becomes the value, of whatever type. An expression inside a longer
text is interpolated. A path that leads nowhere is null. `$${` stands for a literal `${`.

Paths are a part of JSONPath: names, `['names']` and `[indexes]`. The rest (wildcards, filters,
slices, functions) is refused when a workflow is registered: evaluated to null, it would be a
silent difference from a server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from perago.domain.outcome import JsonObject, JsonValue

Path = tuple[str | int, ...]

_PATH_PART = re.compile(
    r"\.?(?P<name>[^.\[\](){}*?@:,'\"\s$]+)"
    r"|\.?\[(?P<index>-?\d+)\]"
    r"|\.?\['(?P<single>[^']*)'\]"
    r'|\.?\["(?P<double>[^"]*)"\]'
)


MAX_CHARACTERS = 3072 * 1024
"""Of all texts of one input. A value is kept with its task up to this size (as on a server)."""

_BRACE = re.compile(r"[{}]")
_MAX_NESTING = 20
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """Where an expression stands in its text; `body` is what is between the braces."""

    start: int
    end: int
    body: str


@dataclass(slots=True)
class _Room:
    """How many characters may still be written into texts: values can be put there many times."""

    left: int

    def take(self, text: str) -> str:
        self.left -= len(text)
        if self.left < 0:
            raise ValueError(f"its texts have over {MAX_CHARACTERS:,} characters in all")
        return text


def resolve(template: JsonValue, scope: JsonObject) -> JsonValue:
    """The template with every expression in it replaced by what the scope holds there.

    Raises `ValueError` where that is more than can be kept.
    """
    return _resolve(template, scope, _Room(MAX_CHARACTERS))


def resolve_object(template: JsonObject, scope: JsonObject) -> JsonObject:
    """`resolve` for each value of an object."""
    room = _Room(MAX_CHARACTERS)
    return {key: _resolve(value, scope, room) for key, value in template.items()}


def _resolve(template: JsonValue, scope: JsonObject, room: _Room) -> JsonValue:
    match template:
        case str():
            return _resolve_text(template, scope, room)
        case dict():
            return {key: _resolve(value, scope, room) for key, value in template.items()}
        case list():
            return [_resolve(value, scope, room) for value in template]
        case _:
            return template


def find_expressions(template: JsonValue) -> Iterator[str]:
    """The bodies of all expressions in a template, innermost first."""
    match template:
        case str():
            for span in _find_spans(template):
                yield from find_expressions(span.body)
                yield span.body
        case dict():
            for value in template.values():
                yield from find_expressions(value)
        case list():
            for value in template:
                yield from find_expressions(value)
        case _:
            return


def parse_path(expression: str) -> Path:
    """The parts of a path; raises `ValueError` for what is not a plain path.

    Read so that `a.b[0]['c d']` gives `("a", "b", 0, "c d")`; a leading `$.` is allowed.
    """
    text = expression.strip().removeprefix("$.")
    parts: list[str | int] = []
    position = 0
    while position < len(text):
        found = _PATH_PART.match(text, position)
        if found is None or (position == 0 and text.startswith((".", "["))):
            raise ValueError(
                f"${{{expression[:_SHOWN_CHARACTERS]}}} is not a plain path: this orchestrator "
                "reads names, ['names'] and [indexes], and no other JSONPath"
            )
        part = next(group for group in found.groups() if group is not None)
        parts.append(int(part) if found["index"] is not None else part)
        position = found.end()
    return tuple(parts)


def _resolve_text(text: str, scope: JsonObject, room: _Room) -> JsonValue:
    spans = list(_find_spans(text))
    if len(spans) == 1 and spans[0].start == 0 and spans[0].end == len(text):
        return _evaluate(spans[0].body, scope, room)
    pieces: list[str] = []
    position = 0
    for span in spans:
        pieces.append(text[position : span.start])
        pieces.append(room.take(_as_text(_evaluate(span.body, scope, room))))
        position = span.end
    pieces.append(text[position:])
    return "".join(pieces).replace("$${", "${")


def _evaluate(body: str, scope: JsonObject, room: _Room) -> JsonValue:
    # An expression may stand inside another: `${step.output.${workflow.input.key}}`.
    path_text = _as_text(_resolve_text(body, scope, room))
    if not path_text.strip():
        return ""
    try:
        path = parse_path(path_text)
    except ValueError:
        return None  # only what an inner expression made of it: the rest was refused before
    return _read(path, scope)


def _read(path: Path, scope: JsonObject) -> JsonValue:
    value: JsonValue = scope
    for part in path:
        match value, part:
            case dict(), str() if part in value:
                value = value[part]
            case list(), int() if -len(value) <= part < len(value):
                value = value[part]
            case _:
                return None
    return value


def _find_spans(text: str) -> Iterator[_Span]:
    """The outermost expressions of a text, left to right; an unclosed one is plain text.

    Raises `ValueError` where too many stand inside each other.
    """
    if "${" not in text:
        return
    closing = _match_braces(text)
    position = 0
    while (start := text.find("${", position)) >= 0:
        end = None if text[start - 1 : start] == "$" else closing.get(start + 1)
        if end is None:
            position = start + 2
            continue
        yield _Span(start=start, end=end + 1, body=text[start + 2 : end])
        position = end + 1


def _match_braces(text: str) -> dict[int, int]:
    """Where each brace that is closed is closed: in one pass, whatever stands inside what."""
    closing: dict[int, int] = {}
    open_: list[int] = []
    nested = 0
    for found in _BRACE.finditer(text):
        at = found.start()
        if text[at] == "{":
            open_.append(at)
        elif open_:
            closing[open_.pop()] = at
    # Opening braces in order, each with the ends of the expressions around it.
    ends: list[int] = []
    for start in sorted(closing):
        while ends and ends[-1] < start:
            ends.pop()
        if text[start - 1 : start] == "$":
            ends.append(closing[start])
            nested = max(nested, len(ends))
    if nested > _MAX_NESTING:
        raise ValueError(f"over {_MAX_NESTING} expressions stand inside each other")
    return closing


def _as_text(value: JsonValue) -> str:
    """A value inside a longer text, in the words of Java, in which Conductor is written."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case dict():
            return "{" + ", ".join(f"{key}={_as_text(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(_as_text(item) for item in value) + "]"
        case _:
            return str(value)

"""`--param k=v` and `--params-file`, as one JSON object."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from functools import partial
from pathlib import Path

from perago.domain.errors import UsageError
from perago.domain.outcome import JsonObject, JsonValue


def read_params(file: Path | None, pairs: Sequence[str]) -> JsonObject:
    """The params of a run: the file's, and over them each `k=v`, the last of a key winning."""
    params = {} if file is None else read_params_file(file)
    for pair in pairs:
        key, value = parse_pair(pair)
        _put(params, key, value)
    return params


def parse_pair(pair: str) -> tuple[list[str], JsonValue]:
    """`a.b=1` as the keys `a`, `b` and the value 1."""
    key, equals, text = pair.partition("=")
    parts = key.split(".")
    if not equals or not all(parts):
        raise UsageError(
            f"--param {pair!r} is not of the form key=value",
            hint="such as --param year=2013, --param airports.min=3",
        )
    return parts, parse_value(text)


def parse_value(text: str) -> JsonValue:
    """JSON if it is JSON, else the text itself."""
    try:
        value: JsonValue = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text
    return value


def read_params_file(path: Path) -> JsonObject:
    """An object from a JSON or TOML file."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise UsageError(f"cannot tell what kind of file {path} is", hint="name it .json or .toml")
    try:
        params = _as_json(reader(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(
            f"cannot read the params file {path}: {error.strerror}", hint="check the path"
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"the params file {path} is malformed: {error}", hint="repair the file"
        ) from error
    if not isinstance(params, dict):
        raise UsageError(
            f"the params file {path} does not hold an object", hint='such as {"year": 2013}'
        )
    return params


def read_json_object(text: str, source: str) -> JsonObject:
    """A JSON object that was given as text; `source` names it in the error."""
    try:
        value: JsonValue = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{source} is not JSON: {error}", hint='such as {"ok": true}') from error
    if not isinstance(value, dict):
        raise UsageError(f"{source} is not a JSON object", hint='such as {"ok": true}')
    return value


def _put(params: JsonObject, keys: Sequence[str], value: JsonValue) -> None:
    *parents, last = keys
    place = params
    for depth, key in enumerate(parents, start=1):
        inner = place.setdefault(key, {})
        if not isinstance(inner, dict):
            raise UsageError(
                f"--param {'.'.join(keys)}: {'.'.join(keys[:depth])} is a value already",
                hint="give either the value or the keys below it",
            )
        place = inner
    place[last] = value


def _as_json(value: object) -> JsonValue:
    """TOML has dates, which travel as ISO 8601 texts."""
    match value:
        case dict():
            return {str(key): _as_json(child) for key, child in value.items()}
        case list():
            return [_as_json(child) for child in value]
        case datetime() | date() | time():
            return value.isoformat()
        case None | bool() | int() | float() | str():
            return value
        case _:
            raise ValueError(f"{value!r} is no JSON value")


def _refuse_constant(name: str) -> JsonValue:
    """NaN and the infinities: Python reads them, JSON has no such thing."""
    raise ValueError(f"{name} is not JSON")


_READERS: dict[str, Callable[[str], object]] = {
    ".json": partial(json.loads, parse_constant=_refuse_constant),
    ".toml": tomllib.loads,
}

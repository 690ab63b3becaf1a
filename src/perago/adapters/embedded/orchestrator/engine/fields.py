"""Reads the fields of a JSON definition; what has the wrong shape is refused by name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from perago.domain.errors import InvalidDefinitionError
from perago.domain.outcome import JsonObject, JsonValue

_LARGEST = 2**31 - 1
_SHOWN_CHARACTERS = 80

Choice = TypeVar("Choice", bound=StrEnum)


def show(value: JsonValue) -> str:
    """A value in an error, so much of it as can be read."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The fields of one definition; `subject` names it in errors. A null field is a missing one."""

    subject: str
    values: JsonObject

    def refuse(self, problem: str, *, hint: str) -> InvalidDefinitionError:
        """The error to raise about this definition."""
        return InvalidDefinitionError(f"{self.subject}: {problem}", hint=hint)

    def text(self, key: str) -> str:
        """A text that must be there and must say something."""
        value = self.values.get(key)
        if isinstance(value, str) and value.strip():
            return value
        raise self._mistyped(key, "a text that is not empty")

    def whole(self, key: str, *, default: int, minimum: int = 0) -> int:
        """A whole number, not below the minimum, that also fits Conductor's Java."""
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= _LARGEST:
            return value
        raise self._mistyped(key, f"a whole number from {minimum} to {_LARGEST}")

    def flag(self, key: str) -> bool:
        """True or false; false when missing."""
        match self.values.get(key):
            case None:
                return False
            case bool(value):
                return value
            case _:
                raise self._mistyped(key, "true or false")

    def choice(self, key: str, default: Choice, *, without: tuple[Choice, ...] = ()) -> Choice:
        """One of the words of an enumeration, except those in `without`."""
        value = self.values.get(key)
        if value is None:
            return default
        allowed = [word for word in type(default) if word not in without]
        for word in allowed:
            if value == word.value:
                return word
        raise self._mistyped(key, "one of " + ", ".join(allowed))

    def mapping(self, key: str) -> JsonObject:
        """A JSON object; empty when missing."""
        match self.values.get(key):
            case None:
                return {}
            case dict(value):
                return value
            case _:
                raise self._mistyped(key, "an object")

    def array(self, key: str) -> list[JsonValue]:
        """A JSON array; empty when missing."""
        match self.values.get(key):
            case None:
                return []
            case list(value):
                return value
            case _:
                raise self._mistyped(key, "an array")

    def _mistyped(self, key: str, expected: str) -> InvalidDefinitionError:
        found = f"is {show(self.values[key])}" if self.values.get(key) is not None else "is missing"
        return self.refuse(f"{key} {found}", hint=f"{key} must be {expected}")

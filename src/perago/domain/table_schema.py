"""Column types in Spark's words, read from text: `id BIGINT, tags ARRAY<STRING>`.

Invariant: two spellings of one type (LONG and bigint) read as the same text, so schemas from
anywhere can be compared as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from perago.domain.errors import DeclarationError

_ALIASES = {
    "bool": "boolean",
    "byte": "tinyint",
    "dec": "decimal",
    "integer": "int",
    "long": "bigint",
    "numeric": "decimal",
    "real": "float",
    "short": "smallint",
    # Parquet files do not tell them apart in every spelling, so nor do we.
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp",
}
_PLAIN = frozenset(
    {
        *("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string", "binary"),
        *("date", "timestamp", "variant"),
    }
)
_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+)|(.))", re.DOTALL)


def parse_schema(schema: str | Mapping[str, str]) -> dict[str, str]:
    """Columns and their types; `DeclarationError` for what is no schema."""
    if isinstance(schema, str):
        return _Reader(schema).columns()
    return {name: parse_type(text) for name, text in schema.items()}


def spell_type(text: str) -> str:
    """One type in its usual spelling; one that is not known stays as it is."""
    try:
        return parse_type(text)
    except DeclarationError:
        return text


def parse_type(text: str) -> str:
    """One type in its usual spelling; `DeclarationError` for what is none."""
    reader = _Reader(text)
    found = reader.type()
    reader.end()
    return found


class _Reader:
    """Reads a schema from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        # A word that was quoted is a name, whatever it says.
        self._tokens = [
            (match[1].replace("``", "`") if match[1] else match[2] or match[3])
            for match in _TOKEN.finditer(text.strip())
        ]
        self._at = 0

    def columns(self) -> dict[str, str]:
        """`name TYPE, name TYPE`."""
        found: dict[str, str] = {}
        while True:
            name = self._word("the name of a column")
            if name in found:
                raise self._refuse(f"column {name!r} stands there twice")
            found[name] = self.type()
            if self._peek() is None:
                return found
            self._expect(",")

    def type(self) -> str:
        """A type, with those inside it."""
        word = self._word("a type").lower()
        word = _ALIASES.get(word, word)
        match word:
            case "array":
                return f"array<{self._inside(self.type)}>"
            case "map":
                return f"map<{self._inside(self._pair)}>"
            case "struct":
                return f"struct<{self._inside(self._fields)}>"
            case "decimal":
                return f"decimal({self._precision()})"
            case _ if word in _PLAIN:
                return word
            case _:
                raise self._refuse(f"there is no type {word!r}")

    def end(self) -> None:
        """Nothing may follow."""
        if self._peek() is not None:
            raise self._refuse(f"{self._peek()!r} stands too much")

    def _inside(self, read: Callable[[], str]) -> str:
        self._expect("<")
        found = read()
        self._expect(">")
        return found

    def _pair(self) -> str:
        key = self.type()
        self._expect(",")
        return f"{key},{self.type()}"

    def _fields(self) -> str:
        fields = []
        while True:
            name = self._word("the name of a field")
            if self._peek() == ":":
                self._at += 1
            fields.append(f"{name}:{self.type()}")
            if self._peek() != ",":
                return ",".join(fields)
            self._at += 1

    def _precision(self) -> str:
        if self._peek() != "(":
            return "10,0"
        self._at += 1
        digits = self._word("a number of digits")
        scale = "0"
        if self._peek() == ",":
            self._at += 1
            scale = self._word("a number of digits")
        self._expect(")")
        return f"{digits},{scale}"

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _word(self, what: str) -> str:
        found = self._peek()
        if found is None or not re.match(r"\w", found):
            raise self._refuse(f"{what} is missing" + (f" before {found!r}" if found else ""))
        self._at += 1
        return found

    def _expect(self, sign: str) -> None:
        if self._peek() != sign:
            raise self._refuse(f"{sign!r} is missing before {self._peek() or 'the end'!r}")
        self._at += 1

    def _refuse(self, reason: str) -> DeclarationError:
        return DeclarationError(
            f"{self._text!r} is no schema: {reason}",
            hint="write columns with Spark's types: 'id BIGINT, name STRING, at TIMESTAMP'",
        )

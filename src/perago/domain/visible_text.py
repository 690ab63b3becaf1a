"""Making text that others chose safe to print: names, messages and reasons of servers and tasks.

A terminal obeys control characters, a line's end makes one row look like two, and the marks that
turn the direction of writing make a name look like another one. All of them are shown as escapes.
Letters of every script, and the joiners between them, stay as they are.
"""

from __future__ import annotations

import re

_COMMANDS = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and line feed, DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # directions
    r"\u2028\u2029"  # ends of lines and paragraphs
)
_IN_LINES = re.compile(rf"[{_COMMANDS}\ud800-\udfff]")
_IN_ONE_LINE = re.compile(rf"[\t\n{_COMMANDS}\ud800-\udfff]")
_FLUSH_LINE = re.compile(r"\n(?=[^ \n])")
_IN_JSON = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""The text on one line, without what commands a terminal: `\x1b[2J` shows its four signs."""
    return text if text.isprintable() else _IN_ONE_LINE.sub(_escape, text)


def visible_lines(text: str) -> str:
    """The same for a text of several lines: tabs and line feeds stay."""
    return text if text.isprintable() else _IN_LINES.sub(_escape, text)


def indent_rest(text: str) -> str:
    """Every line but the first indented, if it is not: none can pass for another message."""
    return _FLUSH_LINE.sub("\n    ", text)


def visible_json(text: str) -> str:
    """The same for a JSON document, which stays one and means what it meant."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode("ascii")

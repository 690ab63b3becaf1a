"""Glob patterns over `/`-separated paths.

`*`, `?` and `[...]` stay within one part; `**` as a whole part spans any number of them, none
included. The same on every Python version, unlike `Path.glob`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import groupby


def matches(pattern: str, paths: Iterable[str]) -> list[str]:
    """The paths that match the whole pattern; case counts, hidden files are files."""
    # `**/**` is `**`; left as it is, it would cost a search for each of them.
    wanted = [
        part
        for part, same in groupby(pattern.split("/"))
        for _ in ([part] if part == "**" else same)
    ]
    return [path for path in paths if _match(wanted, path.split("/"))]


def _match(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    head, rest = pattern[0], pattern[1:]
    if head != "**":
        return bool(parts) and fnmatchcase(parts[0], head) and _match(rest, parts[1:])
    if not rest:
        return bool(parts)
    return any(_match(rest, parts[skipped:]) for skipped in range(len(parts)))

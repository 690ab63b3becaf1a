"""Workspace paths as Spark takes them: pure text, no file system.

Spark's paths are not URIs: nothing in them is percent-encoded, so `a%20b`, `a b`, `a#b` and `a+b`
are four plain names. What has a meaning are the characters of a pattern.
"""

from __future__ import annotations

import re
from pathlib import Path

from perago.domain.errors import TaskTerminalError
from perago.domain.workspace import explain_unsafe_path

_LOOKS_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_PATTERN_CHARACTERS = re.compile(r"([\\*?\[\]{}])")


def check_path(path: str, *, root_allowed: bool = False) -> str:
    """The path without a trailing slash, or an error that says why it is none of the workspace."""
    if path == "" and root_allowed:
        return path
    if _LOOKS_ABSOLUTE.match(path):
        raise TaskTerminalError(
            f"{path!r} is not a path of the workspace: it is absolute",
            hint=(
                "give a path relative to the task's prefix, such as 'clean/flights'; "
                "a URI from uri_in or uri_out, or another place, is read with workspace.spark.read"
            ),
        )
    trimmed = path.removesuffix("/")
    reason = explain_unsafe_path(trimmed)
    if reason is not None:
        raise TaskTerminalError(
            f"{path!r} is not a path of the workspace: {reason}",
            hint="give a path relative to the task's prefix, such as 'clean/flights'",
        )
    return trimmed


def spark_path(root: Path, path: str) -> str:
    """How Spark names a file or directory below a local root."""
    return f"file:{root}/{path}" if path else f"file:{root}"


def has_pattern(path: str) -> bool:
    """Whether a path has characters that a reader takes for more than themselves."""
    return _PATTERN_CHARACTERS.search(path) is not None


def escape_pattern(text: str) -> str:
    """Take the meaning from pattern characters."""
    return _PATTERN_CHARACTERS.sub(r"\\\1", text)

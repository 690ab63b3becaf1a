"""Where a reader's relative paths begin: a directory, or a ref of a repository."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from perago.adapters.spark.paths import escape_pattern, has_pattern, spark_path
from perago.ports import DirectPlace


class Root(Protocol):
    """The beginning of paths, in Spark's terms."""

    def pattern(self, path: str) -> str:
        """How Spark's readers name it, which take every path for a pattern.

        Nothing in the root is meant as one; nor in the path, where that very path exists.
        """
        ...

    def uri(self, path: str) -> str:
        """How Spark names a file or directory."""
        ...


@dataclass(frozen=True, slots=True)
class LocalRoot:
    """A directory of this machine."""

    directory: Path

    def uri(self, path: str) -> str:
        return spark_path(self.directory, path)

    def pattern(self, path: str) -> str:
        is_literal = not has_pattern(path) or (self.directory / path).exists()
        root = Path(escape_pattern(str(self.directory)))
        return spark_path(root, escape_pattern(path) if is_literal else path)


@dataclass(frozen=True, slots=True)
class StoreRoot:
    """A ref of a repository, through the store's S3 gateway; `exists` looks a path up there."""

    place: DirectPlace
    ref: str
    exists: Callable[[str], bool]

    def uri(self, path: str) -> str:
        return self._named(str(self.place.prefix.join(path)))

    def pattern(self, path: str) -> str:
        is_literal = not has_pattern(path) or self.exists(path)
        below = escape_pattern(path) if is_literal else path
        return self._named(escape_pattern(self.place.prefix.key) + below)

    def _named(self, key: str) -> str:
        return f"s3a://{self.place.repository}/{self.ref}/{key}".rstrip("/")

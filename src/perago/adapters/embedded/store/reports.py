"""What `gc` and `verify` tell."""

from __future__ import annotations

from dataclasses import dataclass

from perago.domain.ids import CommitId, ObjectPath, RepositoryName


@dataclass(frozen=True, slots=True, kw_only=True)
class GarbageReport:
    """What a collection removed. Bytes are those of contents, trees and temporary files."""

    commits: int
    tree_nodes: int
    contents: int
    temporary_files: int
    bytes_freed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedObject:
    """What a problem makes unreadable; `path` is None when it is the whole commit."""

    repository: RepositoryName
    commit: CommitId
    path: ObjectPath | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One damaged or missing thing, and everything that suffers from it."""

    what: str
    affected: tuple[AffectedObject, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationReport:
    """What was checked, and what is wrong."""

    commits: int
    tree_nodes: int
    contents: int
    bytes_checked: int
    problems: tuple[Problem, ...]

    @property
    def is_clean(self) -> bool:
        """Whether everything is there and matches its hash."""
        return not self.problems

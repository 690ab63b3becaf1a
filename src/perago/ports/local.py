"""The machine an attempt runs on: its directory, its files, its checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from perago.domain.attempt import Attempt
from perago.domain.guardrail import Guardrail
from perago.domain.ids import Digest, ExecutionId, RelativePath
from perago.ports.store import LocalFile


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTree:
    """What a scan of the body's directory found."""

    files: Mapping[RelativePath, LocalFile]
    directories: frozenset[RelativePath]


class LocalDisk(Protocol):
    """The disk that a directory is on."""

    @property
    def folds_case(self) -> bool:
        """Whether this file system takes `A` and `a` for the same name."""
        ...

    @property
    def normalises(self) -> bool:
        """Whether this file system takes a composed and a decomposed name for the same one."""
        ...

    @property
    def free_bytes(self) -> int:
        """What is left on this disk."""
        ...


class AttemptDirectory(LocalDisk, Protocol):
    """The directory of one execution; nothing in it is shared with another."""

    @property
    def root(self) -> Path:
        """The attempt directory."""
        ...

    @property
    def files(self) -> Path:
        """The sub-directory whose content is published: what a body gets."""
        ...

    def make_directories(self, paths: Iterable[RelativePath]) -> None:
        """Create directories below `files`, for the directory markers of the input ref."""
        ...

    def copy_input(self) -> Path:
        """A second, private copy of `files` beside it, for readers that must see the input ref."""
        ...

    def remember(self, digests: Mapping[RelativePath, Digest]) -> None:
        """Index what was just checked out, so that an untouched file is never read again."""
        ...

    def scan(self) -> LocalTree:
        """Read the tree as it is now.

        Raises `UnpublishableFileError` for a symlink, a fifo, socket or device, for a name that
        could not be downloaded again, and where the body put a link in the place of `files`.
        Follows nothing out of the directory.
        """
        ...

    def remove(self) -> None:
        """Delete the attempt directory with all that is in it, and its marker."""
        ...


class AttemptDirectories(Protocol):
    """Makes and collects attempt directories under one workspace root.

    `collect` and `sweep` are for the supervisor that holds the root's lock.
    """

    def create(self, attempt: Attempt, execution_id: ExecutionId) -> AttemptDirectory:
        """Make the directory of one execution and write its marker."""
        ...

    def collect(self, execution_id: ExecutionId) -> None:
        """Delete the directory of an execution whose process is dead, if there is one."""
        ...

    def sweep(self) -> list[Attempt]:
        """End what earlier supervisors left running and delete its directories.

        Only what has a name and a marker of Perago's is touched. Returns whose they were, as the
        markers say: that is to be believed only where the orchestrator says the same.
        """
        ...


class GuardrailEvaluator(Protocol):
    """Checks files against what a task demands of them."""

    def violations(self, guardrails: Sequence[Guardrail], directory: Path) -> list[str]:
        """What is wrong, one sentence each; empty when all is well. Changes nothing."""
        ...

"""What one contract test works with: a store, a second client of it, short forms of its calls."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeVar

from blake3 import blake3

from perago.domain.errors import PeragoError
from perago.domain.ids import (
    BranchName,
    CommitId,
    Digest,
    ObjectPath,
    RelativePath,
    RepositoryName,
)
from perago.domain.publication import Commit, StagedWorkspace
from perago.domain.staging import STAGING_PREFIX
from perago.ports import LastCheck, LocalFile, WorkspaceStore, always_allowed

MAIN = BranchName("main")
NOWHERE = CommitId("0123456789abcdef" * 4)
"""The id of no commit."""

_Result = TypeVar("_Result")


def ignore_transfer(_objects: int, _size: int) -> None:
    """An `OnTransfer` that does not care."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreBench:
    """A store under test.

    `second` is another client of the same state, as another process would have; it may be the
    same object. `directory` is an empty one for local files.
    """

    store: WorkspaceStore
    second: WorkspaceStore
    directory: Path
    suffix: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    numbers: count[int] = field(default_factory=count)

    def name(self, word: str) -> RepositoryName:
        """The name of a repository that no other test uses."""
        return RepositoryName(f"{word}-{self.suffix}")

    def repository(self, contents: Mapping[str, bytes] | None = None) -> RepositoryName:
        """A new repository, with these objects on its main branch."""
        name = self.name(f"contract-{next(self.numbers)}")
        self.store.create_repository(name, branch=MAIN)
        if contents:
            self.commit(name, MAIN, contents)
        return name

    def file(self, content: bytes) -> LocalFile:
        """A new local file of that content."""
        path = self.directory / f"local-{next(self.numbers)}"
        path.write_bytes(content)
        return LocalFile(path=path, digest=digest_of(content), size=len(content))

    def empty_directory(self) -> Path:
        """A new directory to check out into."""
        path = self.directory / f"checkout-{next(self.numbers)}"
        path.mkdir()
        return path

    def commit(
        self,
        repository: RepositoryName,
        branch: BranchName,
        writes: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        store: WorkspaceStore | None = None,
    ) -> Commit:
        """Commit contents to a branch."""
        return (store or self.store).commit_changes(
            repository,
            branch,
            writes={ObjectPath(path): self.file(content) for path, content in writes.items()},
            deletes=[ObjectPath(path) for path in deletes],
            message="a change",
            metadata={},
            on_transfer=ignore_transfer,
        )

    def head(self, repository: RepositoryName, branch: BranchName = MAIN) -> CommitId:
        """Where a branch stands."""
        return self.store.head(repository, branch).id

    def paths(self, repository: RepositoryName, commit: CommitId, prefix: str = "") -> list[str]:
        """The paths of a listing, in its order."""
        return [entry.path for entry in self.store.list_objects(repository, commit, prefix)]

    def contents(self, repository: RepositoryName, commit: CommitId) -> dict[str, bytes]:
        """Every object of a commit, read through its stream."""
        return {
            path: self.read(repository, commit, path) for path in self.paths(repository, commit)
        }

    def read(self, repository: RepositoryName, commit: CommitId, path: str) -> bytes:
        """One object, read through its stream."""
        with self.store.open_object(repository, commit, ObjectPath(path)) as stream:
            return stream.read()

    def checkout(
        self, repository: RepositoryName, commit: CommitId, directory: Path, prefix: str = ""
    ) -> dict[RelativePath, Digest]:
        """Write every object below a prefix to the file of its name."""
        entries = self.store.list_objects(repository, commit, prefix)
        files = {RelativePath(entry.path): entry for entry in entries}
        return self.store.checkout(repository, commit, files, directory, ignore_transfer)

    def stage(
        self, repository: RepositoryName, source: CommitId, writes: Mapping[str, bytes]
    ) -> StagedWorkspace:
        """A hidden branch from a commit, with one commit on it."""
        branch = BranchName(f"{STAGING_PREFIX}{self.suffix}-{next(self.numbers)}")
        self.store.create_branch(repository, branch, source, hidden=True)
        commit = self.commit(repository, branch, writes)
        return StagedWorkspace(repository=repository, branch=branch, commit=commit.id)

    def merge(
        self,
        staged: StagedWorkspace,
        *,
        expected_head: CommitId,
        target: BranchName = MAIN,
        metadata: Mapping[str, str] | None = None,
        store: WorkspaceStore | None = None,
        last_check: LastCheck = always_allowed,
    ) -> Commit:
        """Publish a staging."""
        return (store or self.store).merge(
            staged,
            target,
            expected_head=expected_head,
            message="publish",
            metadata=metadata or {},
            timeout_seconds=30,
            last_check=last_check,
        )

    def relocate(
        self,
        repository: RepositoryName,
        *,
        to: CommitId,
        expected_head: CommitId,
        branch: BranchName = MAIN,
        store: WorkspaceStore | None = None,
        last_check: LastCheck = always_allowed,
    ) -> None:
        """Move a branch."""
        (store or self.store).relocate(
            repository,
            branch,
            to=to,
            expected_head=expected_head,
            timeout_seconds=30,
            last_check=last_check,
        )

    def clients(self, number: int) -> list[WorkspaceStore]:
        """That many users of the store, on its two clients in turn."""
        return [self.second if index % 2 else self.store for index in range(number)]


def digest_of(content: bytes) -> Digest:
    """Perago's hash of a content."""
    return Digest(blake3(content).hexdigest())


def race(calls: Sequence[Callable[[], _Result]]) -> list[_Result | PeragoError]:
    """Start all calls at the same moment; what each returned or raised, in their order."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], _Result]) -> _Result | PeragoError:
        barrier.wait(timeout=60)
        try:
            return call()
        except PeragoError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))

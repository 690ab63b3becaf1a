"""Versioned workspaces: repositories, commits, branches, objects."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Protocol

from perago.domain.ids import (
    BranchName,
    CommitId,
    Digest,
    ObjectPath,
    RelativePath,
    RepositoryName,
)
from perago.domain.publication import Commit, StagedWorkspace
from perago.domain.workspace import ObjectEntry

DEFAULT_BRANCH = BranchName("main")

OnTransfer = Callable[[int, int], None]
"""Called during a transfer with the objects and bytes moved since the last call.

It may be called from several threads."""


TimeCheck = Callable[[], None]
"""Looks at the clock alone, and raises when the move might no longer end in time."""


LastCheck = Callable[[], TimeCheck]
"""Asked once when a store is about to move a branch; it raises to keep the branch where it is.

It may ask another server, which takes time. So a store whose move would overwrite what it does not
see looks once more after the answer, and calls the `TimeCheck` right before the move."""


def always_allowed() -> TimeCheck:
    """The last check of a caller without a lease: nothing is asked, and there is no hurry."""
    return _any_time


def _any_time() -> None:
    """There is no lease that could run out."""


class Fencing(StrEnum):
    """How a store honours an expected head."""

    ATOMIC = "atomic"
    """Checked and moved in one step: two racing publications cannot both succeed."""

    SOFT = "soft"
    """Read, act, verify: a race is not excluded. After a merge it is detected; a relocation takes
    away what lands right before it, and nobody can tell.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch as a listing shows it. Hidden ones are Perago's own stagings."""

    name: BranchName
    head: CommitId
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    """A regular file on this machine with the digest that was seen when it was scanned."""

    path: Path
    digest: Digest
    size: int


class WorkspaceStore(Protocol):
    """Holds the workspaces.

    For every method: an unknown repository, branch, commit or object raises
    `NotFoundInStoreError` naming it; `StoreUnavailableError` means that nothing was done;
    `OutcomeUnknownError` that it may have been done. Any text is legal as an object path:
    what a path may be as a file is the business of `domain.workspace`. Safe to use from many
    processes and threads at once; a process that is killed at any moment loses no commit and
    leaves nothing that a reader can see half-written.
    """

    @property
    def fencing(self) -> Fencing:
        """How this store honours `expected_head`."""
        ...

    # -- repositories and refs

    def create_repository(
        self, repository: RepositoryName, *, branch: BranchName = DEFAULT_BRANCH
    ) -> Commit:
        """Make a repository whose default branch stands at an empty, parentless commit.

        Raises `AlreadyExistsInStoreError` when there is one, and changes nothing.
        """
        ...

    def repositories(self) -> list[RepositoryName]:
        """All repositories, sorted."""
        ...

    def create_branch(
        self,
        repository: RepositoryName,
        branch: BranchName,
        source: CommitId,
        *,
        hidden: bool = False,
    ) -> None:
        r"""Create-if-absent: of many racing callers exactly one succeeds.

        The others get `AlreadyExistsInStoreError`. Branch names match `^\w[-\w]*$` in ASCII;
        another name raises `StoreError`.
        """
        ...

    def delete_branch(self, repository: RepositoryName, branch: BranchName) -> None:
        """Remove the name; its commits stay readable by id."""
        ...

    def branches(self, repository: RepositoryName, *, hidden: bool = False) -> list[Branch]:
        """The branches, sorted by name; hidden ones only when asked for."""
        ...

    def head(self, repository: RepositoryName, branch: BranchName) -> Commit:
        """The commit a branch stands at, read afresh."""
        ...

    def read_commit(self, repository: RepositoryName, commit: CommitId) -> Commit:
        """A commit by its whole id, whether or not a branch still leads to it."""
        ...

    def resolve(self, repository: RepositoryName, ref: str) -> CommitId:
        """A branch name, a commit id, or a unique prefix (8 or more) of one, as a commit id.

        Tried in this order.
        """
        ...

    def log(self, repository: RepositoryName, commit: CommitId) -> Iterator[Commit]:
        """The commit and its first-parent ancestors, newest first."""
        ...

    # -- objects

    def list_objects(
        self, repository: RepositoryName, commit: CommitId, prefix: str = ""
    ) -> Iterator[ObjectEntry]:
        """The objects whose path starts with `prefix`, in the order of their UTF-8 bytes."""
        ...

    def open_object(
        self, repository: RepositoryName, commit: CommitId, path: ObjectPath
    ) -> AbstractContextManager[BinaryIO]:
        """One object as a stream; memory stays flat whatever its size."""
        ...

    def checkout(
        self,
        repository: RepositoryName,
        commit: CommitId,
        files: Mapping[RelativePath, ObjectEntry],
        directory: Path,
        on_transfer: OnTransfer,
    ) -> dict[RelativePath, Digest]:
        """Write the objects as files below an existing directory, parents included.

        Files are private copies, writable, and never linked to anything that is shared. Content
        is checked on the way: what does not match raises `CorruptStoreError` naming the object.
        Nothing is written over: what has a file's name already raises `StoreError`. A full disk
        raises `InsufficientDiskError`. Returns the digest of every file written.
        """
        ...

    def make_room(self, directory: Path, needed: int) -> None:
        """Try to have so many bytes free on the disk of a directory, which need not exist yet.

        Frees what the store itself holds on that disk and can fetch again, and no more than is
        lacking. Never fails: whoever asks reads afterwards what is free.
        """
        ...

    def commit_changes(
        self,
        repository: RepositoryName,
        branch: BranchName,
        *,
        writes: Mapping[ObjectPath, LocalFile],
        deletes: Collection[ObjectPath],
        message: str,
        metadata: Mapping[str, str],
        on_transfer: OnTransfer,
    ) -> Commit:
        """Advance a branch by one commit that differs in exactly these objects.

        Everything else is carried over. All or nothing for readers of the branch. A file whose
        content no longer has its digest raises `UnpublishableFileError`; a delete of what is not
        there raises `NotFoundInStoreError`; changes that leave the tree as it was raise
        `NothingChangedError`, for there is never an empty commit; a path that is both written and
        deleted raises `StoreError`. If the branch moves meanwhile: `HeadMovedError`.
        """
        ...

    # -- publication

    def merge(
        self,
        staged: StagedWorkspace,
        target: BranchName,
        *,
        expected_head: CommitId,
        message: str,
        metadata: Mapping[str, str],
        timeout_seconds: float,
        last_check: LastCheck = always_allowed,
    ) -> Commit:
        """Squash-merge a staging into the target; return the target's new head.

        The new commit's only parent is `expected_head` and its tree is the staged one. When the
        target is elsewhere: `HeadMovedError`, and nothing moved (atomic fencing), or it is found
        out by the caller's check afterwards (soft fencing). A staging branch that moved past the
        staged commit raises `HeadMovedError` too; a merge that would change nothing `StoreError`.
        `last_check` is asked once, after all that the store reads first, and the time check that
        it returns is called last: what either raises is raised, and nothing moved.
        `timeout_seconds` bounds the move that follows.
        """
        ...

    def relocate(
        self,
        repository: RepositoryName,
        branch: BranchName,
        *,
        to: CommitId,
        expected_head: CommitId,
        timeout_seconds: float,
        last_check: LastCheck = always_allowed,
    ) -> None:
        """Move a branch to an existing commit; expected head, check and time-out are as in `merge`.

        A commit that lands while `last_check` is asked raises `HeadMovedError`, with either
        fencing: no look afterwards would find it. The commit that the branch leaves stays readable
        by id.
        """
        ...

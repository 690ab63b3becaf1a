"""Repositories, branches and commits of a lakeFS server, as Perago's values.

Invariant: a name is checked before it becomes part of an address, so that none can lead a call
anywhere else.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from lakefs_sdk.models.branch_creation import BranchCreation
from lakefs_sdk.models.commit import Commit as SdkCommit
from lakefs_sdk.models.repository_creation import RepositoryCreation

from perago.adapters.lakefs.answers import Asked
from perago.adapters.lakefs.api import LakeFSApi
from perago.domain.errors import (
    AlreadyExistsInStoreError,
    NotFoundInStoreError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
)
from perago.domain.ids import BranchName, CommitId, RepositoryName, TreeId
from perago.domain.publication import Commit
from perago.ports import Branch

PAGE = 1000
"""The most that the server lists in one answer."""

_BRANCH_NAME = re.compile(r"\w[-\w]*", re.ASCII)
_REPOSITORY_NAME = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
_COMMIT_ID = re.compile(r"[0-9a-f]{64}")
_COMMIT_PREFIX = re.compile(r"[0-9a-f]{8,64}")
_SERVER_METADATA = ".lakefs."
"""What the server adds to a commit of its own accord begins with this."""

_PRIVATE_TRIES = 3
_RACE_WAITS_SECONDS = (0.0, 0.1, 0.2, 0.4)


class History:
    """Reads and makes refs."""

    def __init__(
        self, api: LakeFSApi, timeout_seconds: float, storage_namespace: str | None
    ) -> None:
        self._api = api
        self._timeout = timeout_seconds
        self._storage_namespace = storage_namespace

    # -- repositories

    def create_repository(self, repository: RepositoryName, branch: BranchName) -> None:
        """Create-if-absent; an illegal name is refused before it is sent."""
        if not _REPOSITORY_NAME.fullmatch(repository):
            raise StoreError(
                f"{repository!r} cannot be the name of a lakeFS repository",
                hint="3 to 63 characters: lower-case letters, digits and dashes",
            )
        check_branch_name(branch)
        if self._exists(repository):
            raise _repository_exists(repository)
        wanted = RepositoryCreation(
            name=repository,
            default_branch=branch,
            storage_id=None,
            storage_namespace=f"{self._namespace_base()}{repository}",
        )
        asked = Asked(
            what=f"create repository {repository!r}",
            missing="no such place",
            changes=True,
            creates=True,
        )
        call = self._api.repositories.create_repository
        try:
            self._api.change(asked, self._timeout, call, wanted)
        except AlreadyExistsInStoreError:
            raise _repository_exists(repository) from None
        except StoreError:
            # Of two at once, the slower is told that the storage is taken, a moment before the
            # faster one's repository can be seen.
            for wait in _RACE_WAITS_SECONDS:
                time.sleep(wait)
                if self._exists(repository):
                    raise _repository_exists(repository) from None
            raise

    def _namespace_base(self) -> str:
        if self._storage_namespace is not None:
            return self._storage_namespace.rstrip("/") + "/"
        asked = Asked(what="read the server's configuration", missing="no configuration")
        config = self._api.read(asked, self._api.config.get_config)
        storage = config.storage_config
        prefix = storage.default_namespace_prefix if storage is not None else None
        if prefix:
            return prefix if prefix.endswith("/") else prefix + "/"
        if storage is not None and storage.blockstore_type in ("local", "mem"):
            return f"{storage.blockstore_type}://"
        raise StoreError(
            "the server has no default place for new repositories",
            hint="say where with PERAGO_LAKEFS_STORAGE_NAMESPACE, such as s3://bucket/lake",
        )

    def _exists(self, repository: RepositoryName) -> bool:
        try:
            self.require_repository(repository)
        except NotFoundInStoreError:
            return False
        return True

    def require_repository(self, repository: RepositoryName) -> None:
        """Raise `NotFoundInStoreError` unless there is one."""
        if not _REPOSITORY_NAME.fullmatch(repository):
            raise NotFoundInStoreError(_no_repository(repository))
        asked = Asked(what=f"read {repository!r}", missing=_no_repository(repository))
        self._api.read(asked, self._api.repositories.get_repository, repository)

    def repositories(self) -> list[RepositoryName]:
        """All of them, sorted."""
        asked = Asked(what="list the repositories", missing="no repositories")
        found = self.pages(asked, self._api.repositories.list_repositories)
        return sorted(RepositoryName(repository.id) for repository in found)

    # -- branches

    def create_branch(
        self, repository: RepositoryName, branch: BranchName, source: CommitId, *, hidden: bool
    ) -> None:
        """Create-if-absent; sent once."""
        check_branch_name(branch)
        missing = f"no commit {source} in repository {repository!r}"
        if not _COMMIT_ID.fullmatch(source) or not _REPOSITORY_NAME.fullmatch(repository):
            raise NotFoundInStoreError(missing)
        asked = Asked(
            what=f"create branch {branch!r} in {repository!r}",
            missing=missing,
            changes=True,
            creates=True,
        )
        wanted = BranchCreation(name=branch, source=source, hidden=hidden)
        call = self._api.branches.create_branch
        self._api.change(asked, self._timeout, call, repository, wanted)

    def create_private_branch(
        self, repository: RepositoryName, branch: BranchName, source: CommitId
    ) -> None:
        """Create a hidden branch whose name nobody else can have chosen.

        Therefore a lost answer can be settled by looking, and the call may be sent again: if the
        branch is there, it is ours. One that was there before the first call is not.
        """
        for number in range(1, _PRIVATE_TRIES + 1):
            try:
                self.create_branch(repository, branch, source, hidden=True)
            except AlreadyExistsInStoreError:
                if number == 1:
                    raise
                return
            except (OutcomeUnknownError, StoreUnavailableError):
                if self._stands_at(repository, branch, source):
                    return
                if number == _PRIVATE_TRIES:
                    raise
            else:
                return

    def _stands_at(self, repository: RepositoryName, branch: BranchName, source: CommitId) -> bool:
        try:
            return self.head_id(repository, branch) == source
        except NotFoundInStoreError:
            return False

    def delete_branch(self, repository: RepositoryName, branch: BranchName) -> None:
        """Remove the name; a lost answer is settled by asking again."""
        missing = _no_branch(repository, branch)
        _refuse_illegal(repository, branch, missing)
        asked = Asked(
            what=f"delete branch {branch!r} of {repository!r}", missing=missing, changes=True
        )
        call = self._api.branches.delete_branch
        try:
            self._api.act(asked, self._timeout, call, repository, branch)
        except (OutcomeUnknownError, StoreUnavailableError):
            # Whoever else may have deleted it meanwhile: it is gone, as was asked for.
            try:
                self._api.repeat(asked, call, repository, branch)
            except NotFoundInStoreError:
                return

    def branches(self, repository: RepositoryName, *, hidden: bool) -> list[Branch]:
        """Sorted by name; the server's listing does not say which are hidden, so it is asked
        twice.
        """
        self.require_repository(repository)
        asked = Asked(
            what=f"list the branches of {repository!r}", missing=_no_repository(repository)
        )
        call = self._api.branches.list_branches
        shown = {found.id for found in self.pages(asked, call, repository)}
        every = self.pages(asked, call, repository, show_hidden=hidden)
        listed = [
            Branch(
                name=BranchName(found.id),
                head=CommitId(found.commit_id),
                hidden=found.id not in shown,
            )
            for found in every
        ]
        return sorted(listed, key=lambda branch: branch.name)

    def head_id(self, repository: RepositoryName, branch: BranchName) -> CommitId:
        """Where a branch stands, read afresh."""
        missing = _no_branch(repository, branch)
        _refuse_illegal(repository, branch, missing)
        asked = Asked(what=f"read the head of {repository}/{branch}", missing=missing)
        found = self._api.read(asked, self._api.branches.get_branch, repository, branch)
        return CommitId(found.commit_id)

    def head(self, repository: RepositoryName, branch: BranchName) -> Commit:
        """The commit where a branch stands."""
        return self.commit(repository, self.head_id(repository, branch))

    # -- commits

    def commit(self, repository: RepositoryName, commit: CommitId) -> Commit:
        """A commit by its whole id."""
        missing = f"no commit {commit} in repository {repository!r}"
        if not _COMMIT_ID.fullmatch(commit) or not _REPOSITORY_NAME.fullmatch(repository):
            raise NotFoundInStoreError(missing)
        asked = Asked(what=f"read commit {commit} of {repository!r}", missing=missing)
        return to_commit(self._api.read(asked, self._api.commits.get_commit, repository, commit))

    def resolve(self, repository: RepositoryName, ref: str) -> CommitId:
        """A branch, a commit, or the beginning of one."""
        if _BRANCH_NAME.fullmatch(ref):
            try:
                return self.head_id(repository, BranchName(ref))
            except NotFoundInStoreError:
                pass
        missing = f"no branch and no commit {ref!r} in repository {repository!r}"
        if not _COMMIT_PREFIX.fullmatch(ref) or not _REPOSITORY_NAME.fullmatch(repository):
            raise NotFoundInStoreError(missing)
        asked = Asked(what=f"find {ref!r} in {repository!r}", missing=missing)
        found = self._api.read(asked, self._api.commits.get_commit, repository, ref)
        if not found.id.startswith(ref):
            raise NotFoundInStoreError(missing)
        return CommitId(found.id)

    def log(self, repository: RepositoryName, commit: CommitId) -> Iterator[Commit]:
        """First parents, newest first."""
        self.commit(repository, commit)
        asked = Asked(
            what=f"read the history of {commit}",
            missing=f"no commit {commit} in repository {repository!r}",
        )
        call = self._api.refs.log_commits
        for found in self.pages(asked, call, repository, commit, first_parent=True):
            yield to_commit(found)

    def pages(
        self, asked: Asked, call: Callable[..., Any], *args: object, **kw: object
    ) -> Iterator[Any]:
        """Every item of a listing, page by page."""
        after = ""
        while True:
            page = self._api.read(asked, call, *args, **kw, after=after, amount=PAGE)
            yield from page.results
            if not page.pagination.has_more:
                return
            after = page.pagination.next_offset


def to_commit(found: SdkCommit) -> Commit:
    """A commit as the server shows it."""
    return Commit(
        id=CommitId(found.id),
        parents=tuple(CommitId(parent) for parent in found.parents),
        tree=TreeId(found.meta_range_id),
        message=found.message,
        created_at=datetime.fromtimestamp(found.creation_date, UTC),
        metadata={
            key: value
            for key, value in (found.metadata or {}).items()
            if not key.startswith(_SERVER_METADATA)
        },
    )


def check_branch_name(branch: BranchName) -> None:
    """Raise `StoreError` for a name that lakeFS does not take."""
    if not _BRANCH_NAME.fullmatch(branch):
        raise StoreError(
            f"{branch!r} cannot be the name of a branch",
            hint="use letters, digits, _ and -, and do not begin with -",
        )


def _refuse_illegal(repository: RepositoryName, branch: BranchName, missing: str) -> None:
    """What has an illegal name is not there."""
    if not _BRANCH_NAME.fullmatch(branch) or not _REPOSITORY_NAME.fullmatch(repository):
        raise NotFoundInStoreError(missing)


def _repository_exists(repository: RepositoryName) -> AlreadyExistsInStoreError:
    return AlreadyExistsInStoreError(
        f"there is already a repository {repository!r}", hint="use it, or choose another name"
    )


def _no_repository(repository: RepositoryName) -> str:
    return f"no repository {repository!r} on this server"


def _no_branch(repository: RepositoryName, branch: BranchName) -> str:
    return f"no branch {branch!r} in repository {repository!r}"

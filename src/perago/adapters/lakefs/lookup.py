"""Looks for repositories, branches and commits on a lakeFS server, as Perago's values.

Invariant: what is missing is told by its own name: no repository is no missing branch of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from perago.adapters.lakefs import calls
from perago.adapters.lakefs.answers import Asked, explain_nonsense
from perago.adapters.lakefs.api import LakeFSApi
from perago.adapters.lakefs.names import (
    is_branch_name,
    is_commit_id,
    is_commit_prefix,
    is_repository_name,
    no_branch,
    no_commit,
    no_ref,
    no_repository,
)
from perago.adapters.lakefs.values import (
    read_each,
    read_part,
    read_text,
    to_branch,
    to_commit,
    to_head,
)
from perago.domain.errors import NotFoundInStoreError, StoreError
from perago.domain.ids import BranchName, CommitId, RepositoryName
from perago.domain.outcome import JsonObject
from perago.domain.publication import Commit
from perago.ports import Branch


class Lookup:
    """Reads refs."""

    def __init__(self, api: LakeFSApi) -> None:
        self._api = api

    # -- repositories

    def require_repository(self, repository: RepositoryName) -> None:
        """Raise `NotFoundInStoreError` unless there is one."""
        missing = no_repository(repository)
        if not is_repository_name(repository):
            raise missing
        asked = Asked(what=f"read {repository!r}", missing=missing.message)
        try:
            self._api.read(asked, calls.get_repository(repository))
        except NotFoundInStoreError:
            raise missing from None

    def repositories(self) -> list[RepositoryName]:
        """All of them, sorted."""
        asked = Asked(
            what="list the repositories",
            missing=f"what answers at {self._api.endpoint} is no lakeFS server",
            finds_server=True,
        )
        found = self._api.read_pages(asked, calls.list_repositories())
        try:
            return sorted(RepositoryName(name) for name in read_each(asked, read_id, found))
        except NotFoundInStoreError as error:  # lakeFS has a list, if an empty one
            raise StoreError(error.message, hint="check PERAGO_LAKEFS_ENDPOINT") from None

    # -- branches

    def branches(self, repository: RepositoryName, *, hidden: bool) -> list[Branch]:
        """Sorted by name; the server's listing does not say which are hidden, so it is asked
        twice.
        """
        self.require_repository(repository)
        missing = no_repository(repository).message
        asked = Asked(what=f"list the branches of {repository!r}", missing=missing)
        listed = self._api.read_pages(asked, calls.list_branches(repository))
        shown = set(read_each(asked, read_id, listed))
        every = self._api.read_pages(asked, calls.list_branches(repository, show_hidden=hidden))

        def read(found: JsonObject) -> Branch:
            return to_branch(found, hidden=read_id(found) not in shown)

        return sorted(read_each(asked, read, every), key=lambda branch: branch.name)

    def head_id(self, repository: RepositoryName, branch: BranchName) -> CommitId:
        """Where a branch stands, read afresh."""
        head = self._find_head(repository, branch)
        if head is None:
            raise self._explain_missing(repository, no_branch(repository, branch))
        return head

    def _find_head(self, repository: RepositoryName, branch: BranchName) -> CommitId | None:
        """Where a branch stands; what has an illegal name is not there."""
        if not is_branch_name(branch) or not is_repository_name(repository):
            return None
        missing = no_branch(repository, branch).message
        asked = Asked(what=f"read the head of {repository}/{branch}", missing=missing)
        try:
            found = self._api.read(asked, calls.get_branch(repository, branch))
        except NotFoundInStoreError:
            return None
        if found.get("id") != branch:
            raise explain_nonsense(asked, "it is about another branch")
        return read_part(asked, to_head, found)

    def _explain_missing(
        self, repository: RepositoryName, error: NotFoundInStoreError
    ) -> NotFoundInStoreError:
        """The error for something that is not there, unless the whole repository is not."""
        try:
            self.require_repository(repository)
        except NotFoundInStoreError as missing:
            return missing
        except StoreError:  # who cannot find that out has still learnt the rest
            return error
        return error

    def head(self, repository: RepositoryName, branch: BranchName) -> Commit:
        """The commit where a branch stands."""
        return self.commit(repository, self.head_id(repository, branch))

    # -- commits

    def commit(self, repository: RepositoryName, commit: CommitId) -> Commit:
        """A commit by its whole id."""
        missing = no_commit(repository, commit)
        found = None
        if is_commit_id(commit):
            asked = Asked(what=f"read commit {commit} of {repository!r}", missing=missing.message)
            found = self._find_commit(asked, repository, commit)
        if found is None:
            raise self._explain_missing(repository, missing)
        return found

    def _find_commit(self, asked: Asked, repository: RepositoryName, commit: str) -> Commit | None:
        """The commit whose id begins so; None where there is none."""
        if not is_repository_name(repository):
            return None
        try:
            found = self._api.read(asked, calls.get_commit(repository, commit))
        except NotFoundInStoreError:
            return None
        made = read_part(asked, to_commit, found)
        # A branch or tag may be called like it: that is not what was asked for.
        return made if made.id.startswith(commit) else None

    def resolve(self, repository: RepositoryName, ref: str) -> CommitId:
        """A branch, a commit, or the beginning of one."""
        head = self._find_head(repository, BranchName(ref))
        if head is not None:
            return head
        missing = no_ref(repository, ref)
        found = None
        if is_commit_prefix(ref):
            asked = Asked(what=f"find {ref!r} in {repository!r}", missing=missing.message)
            found = self._find_commit(asked, repository, ref)
        if found is None:
            raise self._explain_missing(repository, missing)
        return found.id

    def log(self, repository: RepositoryName, commit: CommitId) -> Iterator[Commit]:
        """First parents, newest first."""
        self.commit(repository, commit)
        asked = Asked(
            what=f"read the history of {commit}",
            missing=no_commit(repository, commit).message,
        )
        listed = self._api.read_pages(asked, calls.log_commits(repository, commit))
        yield from read_each(asked, to_commit, listed)


def read_id(found: JsonObject) -> str:
    """The name of a repository or branch in a listing."""
    return read_text(found, "id")

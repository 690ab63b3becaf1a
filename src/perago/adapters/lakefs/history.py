"""Makes and removes repositories and branches on a lakeFS server.

Invariant: a change is sent once, unless what it makes is nobody else's or sending it again does no
more.
"""

from __future__ import annotations

import time

from perago.adapters.lakefs import calls
from perago.adapters.lakefs.answers import Asked
from perago.adapters.lakefs.api import LakeFSApi
from perago.adapters.lakefs.lookup import Lookup
from perago.adapters.lakefs.names import (
    check_branch_name,
    check_repository_name,
    is_branch_name,
    is_commit_id,
    is_repository_name,
    no_branch,
    no_commit,
)
from perago.adapters.lakefs.values import read_object, read_part
from perago.domain.errors import (
    AlreadyExistsInStoreError,
    NotFoundInStoreError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
)
from perago.domain.ids import BranchName, CommitId, RepositoryName

_PRIVATE_TRIES = 3
_RACE_WAITS_SECONDS = (0.0, 0.1, 0.2, 0.4)


class History(Lookup):
    """Reads and makes refs."""

    def __init__(
        self, api: LakeFSApi, timeout_seconds: float, storage_namespace: str | None
    ) -> None:
        super().__init__(api)
        self._timeout = timeout_seconds
        self._storage_namespace = storage_namespace

    # -- repositories

    def create_repository(self, repository: RepositoryName, branch: BranchName) -> None:
        """Create-if-absent; an illegal name is refused before it is sent."""
        check_repository_name(repository)
        check_branch_name(branch)
        if self._exists(repository):
            raise _repository_exists(repository)
        call = calls.create_repository(
            repository,
            storage_namespace=f"{self._namespace_base()}{repository}",
            default_branch=branch,
        )
        asked = Asked(
            what=f"create repository {repository!r}",
            missing="no such place",
            changes=True,
            creates=True,
        )
        try:
            self._api.change(asked, self._timeout, call)
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
        config = self._api.read(asked, calls.get_config())
        storage = read_part(asked, lambda found: read_object(found, "storage_config"), config)
        prefix, kind = storage.get("default_namespace_prefix"), storage.get("blockstore_type")
        if isinstance(prefix, str) and prefix:
            return prefix if prefix.endswith("/") else prefix + "/"
        if kind in ("local", "mem"):
            return f"{kind}://"
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

    # -- branches

    def create_branch(
        self, repository: RepositoryName, branch: BranchName, source: CommitId, *, hidden: bool
    ) -> None:
        """Create-if-absent; sent once."""
        check_branch_name(branch)
        missing = no_commit(repository, source)
        if not is_commit_id(source) or not is_repository_name(repository):
            raise missing
        asked = Asked(
            what=f"create branch {branch!r} in {repository!r}",
            missing=missing.message,
            changes=True,
            creates=True,
        )
        call = calls.create_branch(repository, branch, source, hidden=hidden)
        self._api.act(asked, self._timeout, call)

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
        return self._find_head(repository, branch) == source

    def delete_branch(self, repository: RepositoryName, branch: BranchName) -> None:
        """Remove the name; a lost answer is settled by asking again."""
        missing = no_branch(repository, branch)
        if not is_branch_name(branch) or not is_repository_name(repository):
            raise missing
        asked = Asked(
            what=f"delete branch {branch!r} of {repository!r}",
            missing=missing.message,
            changes=True,
        )
        call = calls.delete_branch(repository, branch)
        try:
            self._api.act(asked, self._timeout, call)
        except (OutcomeUnknownError, StoreUnavailableError):
            # Whoever else may have deleted it meanwhile: it is gone, as was asked for.
            try:
                self._api.repeat(asked, call)
            except NotFoundInStoreError:
                return


def _repository_exists(repository: RepositoryName) -> AlreadyExistsInStoreError:
    return AlreadyExistsInStoreError(
        f"there is already a repository {repository!r}", hint="use it, or choose another name"
    )

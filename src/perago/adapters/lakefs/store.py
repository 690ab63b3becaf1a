"""`LakeFSWorkspaceStore`: the WorkspaceStore port on a lakeFS server, in its soft form.

Invariant: uploads go to branches that nobody else uses, so nobody sees an object before its
commit; a merge or a reset is sent once, after its branch was seen at the expected head.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Self

from perago.adapters.lakefs import calls
from perago.adapters.lakefs.answers import Asked
from perago.adapters.lakefs.api import LakeFSApi
from perago.adapters.lakefs.changes import Changes, ChangeWriter
from perago.adapters.lakefs.connection import LakeFSConnection
from perago.adapters.lakefs.data_plane import DataPlane
from perago.adapters.lakefs.download import Download
from perago.adapters.lakefs.history import History
from perago.adapters.lakefs.names import no_branch
from perago.adapters.lakefs.object_stream import ObjectStream
from perago.adapters.lakefs.publication import Publication
from perago.adapters.lakefs.staging_area import StagingArea
from perago.adapters.lakefs.values import is_object, read_each, read_part, to_entry
from perago.adapters.lakefs.wire import Wire
from perago.adapters.object_cache import ObjectCache
from perago.adapters.patience import Patience
from perago.domain.ids import (
    BranchName,
    CommitId,
    Digest,
    ObjectPath,
    RelativePath,
    RepositoryName,
)
from perago.domain.publication import Commit, StagedWorkspace
from perago.domain.staged_changes import ObjectChange
from perago.domain.staging import STAGING_PREFIX
from perago.domain.workspace import ObjectEntry
from perago.ports import Branch, Fencing, LastCheck, LocalFile, OnTransfer, always_allowed
from perago.ports.store import DEFAULT_BRANCH


class LakeFSWorkspaceStore:
    """Workspaces on one lakeFS server; safe to use from many threads. Close it in the end."""

    def __init__(self, connection: LakeFSConnection, *, cache: ObjectCache | None = None) -> None:
        self._connection = connection
        self._cache = cache
        patience = Patience(connection.retry_seconds)
        self._wire = Wire(connection)
        self._api = LakeFSApi(connection, self._wire, patience)
        self._history = History(self._api, connection.timeout_seconds, connection.storage_namespace)
        self._data = DataPlane(connection, self._wire, patience)
        self._publication = Publication(self._api, self._history)
        self._area = StagingArea(self._api, self._history, patience, connection.timeout_seconds)
        self._changes = ChangeWriter(
            self._history, self._area, self._publication, self._data, connection
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._data.close()
        self._wire.close()

    @property
    def fencing(self) -> Fencing:
        return Fencing.SOFT

    # -- repositories and refs

    def create_repository(
        self, repository: RepositoryName, *, branch: BranchName = DEFAULT_BRANCH
    ) -> Commit:
        self._history.create_repository(repository, branch)
        return self._history.head(repository, branch)

    def repositories(self) -> list[RepositoryName]:
        return self._history.repositories()

    def create_branch(
        self,
        repository: RepositoryName,
        branch: BranchName,
        source: CommitId,
        *,
        hidden: bool = False,
    ) -> None:
        if hidden and branch.startswith(STAGING_PREFIX):
            self._history.create_private_branch(repository, branch, source)
        else:
            self._history.create_branch(repository, branch, source, hidden=hidden)

    def delete_branch(self, repository: RepositoryName, branch: BranchName) -> None:
        self._history.delete_branch(repository, branch)

    def branches(self, repository: RepositoryName, *, hidden: bool = False) -> list[Branch]:
        return self._history.branches(repository, hidden=hidden)

    def head(self, repository: RepositoryName, branch: BranchName) -> Commit:
        return self._history.head(repository, branch)

    def read_commit(self, repository: RepositoryName, commit: CommitId) -> Commit:
        return self._history.commit(repository, commit)

    def resolve(self, repository: RepositoryName, ref: str) -> CommitId:
        return self._history.resolve(repository, ref)

    def log(self, repository: RepositoryName, commit: CommitId) -> Iterator[Commit]:
        return self._history.log(repository, commit)

    # -- objects

    def list_objects(
        self, repository: RepositoryName, commit: CommitId, prefix: str = ""
    ) -> Iterator[ObjectEntry]:
        self._history.commit(repository, commit)
        asked = Asked(
            what=f"list the objects of commit {commit} in {repository!r}",
            missing=f"no commit {commit} in repository {repository!r}",
        )
        return self._list(asked, repository, commit, prefix)

    @contextmanager
    def open_object(
        self, repository: RepositoryName, commit: CommitId, path: ObjectPath
    ) -> Iterator[BinaryIO]:
        self._history.commit(repository, commit)
        with ExitStack() as stack:
            body = self._data.patience.retry(
                lambda: stack.enter_context(self._data.open(repository, commit, path))
            )
            yield stack.enter_context(BufferedReader(ObjectStream(body.read)))

    def checkout(
        self,
        repository: RepositoryName,
        commit: CommitId,
        files: Mapping[RelativePath, ObjectEntry],
        directory: Path,
        on_transfer: OnTransfer,
    ) -> dict[RelativePath, Digest]:
        self._history.commit(repository, commit)
        download = Download(
            self._data,
            self._cache,
            repository,
            commit,
            server=self._connection.endpoint,
            trust_md5=self._connection.etag_is_md5,
        )
        return download.write_files(files, directory, self._connection.concurrency, on_transfer)

    def make_room(self, directory: Path, needed: int) -> None:
        if self._cache is not None:
            self._cache.give_way(directory, needed)

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
        changes = Changes(writes=writes, deletes=deletes, message=message, metadata=metadata)
        return self._changes.commit(repository, branch, changes, on_transfer)

    # -- staging areas

    def list_staged(
        self, repository: RepositoryName, branch: BranchName, prefix: str = ""
    ) -> Iterator[ObjectEntry]:
        asked = Asked(
            what=f"list the objects on {repository}/{branch}",
            missing=no_branch(repository, branch).message,
        )
        return self._list(asked, repository, branch, prefix)

    def staged_changes(
        self, repository: RepositoryName, branch: BranchName
    ) -> Iterator[ObjectChange]:
        return self._area.changes(repository, branch)

    def changes_between(
        self, repository: RepositoryName, base: CommitId, commit: CommitId
    ) -> Iterator[ObjectChange]:
        return self._area.changes_between(repository, base, commit)

    def remove_staged(
        self, repository: RepositoryName, branch: BranchName, paths: Collection[ObjectPath]
    ) -> None:
        # A delete on a branch that is not there is no error to the server.
        self._history.head_id(repository, branch)
        self._area.remove(repository, branch, paths)

    def commit_staged(
        self,
        repository: RepositoryName,
        branch: BranchName,
        *,
        expected_head: CommitId,
        message: str,
        metadata: Mapping[str, str],
    ) -> Commit:
        return self._area.commit(
            repository, branch, expected_head=expected_head, message=message, metadata=metadata
        )

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
        return self._publication.merge(
            staged,
            target,
            expected_head=expected_head,
            message=message,
            metadata=metadata,
            timeout_seconds=timeout_seconds,
            last_check=last_check,
        )

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
        self._publication.relocate(
            repository,
            branch,
            to=to,
            expected_head=expected_head,
            timeout_seconds=timeout_seconds,
            last_check=last_check,
        )

    def _list(
        self, asked: Asked, repository: RepositoryName, ref: str, prefix: str
    ) -> Iterator[ObjectEntry]:
        """The objects at a commit, or those that a branch shows."""
        found = self._api.read_pages(asked, calls.list_objects(repository, ref, prefix=prefix))
        objects = (one for one in found if read_part(asked, is_object, one))
        return read_each(asked, partial(to_entry, prefix=prefix), objects)

"""The `DirectStore` port in a dictionary: every branch with what was written to it uncommitted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from perago.domain.errors import NothingChangedError
from perago.domain.ids import BranchName, CommitId, Digest, ObjectPath, RepositoryName
from perago.domain.publication import Commit
from perago.domain.staged_changes import ChangeKind, ObjectChange
from perago.domain.workspace import ObjectEntry
from perago.ports import Clock
from perago.testing.memory_store import MemoryWorkspaceStore, byte_order, content_digest

_Objects = Mapping[ObjectPath, Digest]


class MemoryDirectStore(MemoryWorkspaceStore):
    """A memory store with an open staging area per branch; `put` is its data plane."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._uncommitted: dict[
            tuple[RepositoryName, BranchName], dict[ObjectPath, Digest | None]
        ] = {}

    def put(
        self, repository: RepositoryName, branch: BranchName, path: ObjectPath, content: bytes
    ) -> None:
        """Write an object to a branch and leave it uncommitted, as a body does."""
        with self._lock:
            self._repository(repository).branch(branch)
            digest = content_digest(content)
            self._contents[digest] = content
            self._area(repository, branch)[path] = digest

    def delete_branch(self, repository: RepositoryName, branch: BranchName) -> None:
        with self._lock:
            super().delete_branch(repository, branch)
            self._uncommitted.pop((repository, branch), None)

    def list_staged(
        self, repository: RepositoryName, branch: BranchName, prefix: str = ""
    ) -> Iterator[ObjectEntry]:
        with self._lock:
            shown = self._shown(repository, branch)
            paths = sorted((path for path in shown if path.startswith(prefix)), key=byte_order)
            return iter([self._entry(path, shown[path]) for path in paths])

    def staged_changes(
        self, repository: RepositoryName, branch: BranchName
    ) -> Iterator[ObjectChange]:
        with self._lock:
            head = self.head(repository, branch).id
            shown = self._shown(repository, branch)
            return self._diff(self._objects(repository, head), shown)

    def changes_between(
        self, repository: RepositoryName, base: CommitId, commit: CommitId
    ) -> Iterator[ObjectChange]:
        with self._lock:
            return self._diff(self._objects(repository, base), self._objects(repository, commit))

    def remove_staged(
        self, repository: RepositoryName, branch: BranchName, paths: Collection[ObjectPath]
    ) -> None:
        with self._lock:
            self._repository(repository).branch(branch)
            self._area(repository, branch).update(dict.fromkeys(paths))

    def commit_staged(
        self,
        repository: RepositoryName,
        branch: BranchName,
        *,
        expected_head: CommitId,
        message: str,
        metadata: Mapping[str, str],
    ) -> Commit:
        with self._lock:
            found = self._repository(repository)
            unmoved = found.require_unmoved(branch, expected_head)
            shown = self._shown(repository, branch)
            if shown == self._objects(repository, expected_head):
                raise NothingChangedError("there is nothing to commit: the branch shows its head")
            commit = self._commit(found, self._tree(shown), (expected_head,), message, metadata)
            found.move(unmoved, commit.id)
            self._uncommitted.pop((repository, branch), None)
            return commit

    def _area(
        self, repository: RepositoryName, branch: BranchName
    ) -> dict[ObjectPath, Digest | None]:
        return self._uncommitted.setdefault((repository, branch), {})

    def _shown(self, repository: RepositoryName, branch: BranchName) -> _Objects:
        """The branch as its readers see it; None in the area means that the object is gone."""
        committed = self._objects(repository, self.head(repository, branch).id)
        shown = {**committed, **self._area(repository, branch)}
        return {path: digest for path, digest in shown.items() if digest is not None}

    def _diff(self, old: _Objects, new: _Objects) -> Iterator[ObjectChange]:
        def change(path: ObjectPath) -> ObjectChange:
            if path not in new:
                return ObjectChange(path=path, kind=ChangeKind.REMOVED)
            kind = ChangeKind.CHANGED if path in old else ChangeKind.ADDED
            return ObjectChange(path=path, kind=kind, size=len(self._contents[new[path]]))

        paths = [path for path in {**old, **new} if old.get(path) != new.get(path)]
        return iter([change(path) for path in sorted(paths, key=byte_order)])

"""The `WorkspaceStore` port in a dictionary: the reference implementation, made to be read.

One lock around everything: each method is one atomic step, and what it returns is immutable.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3

from perago.domain.errors import (
    AlreadyExistsInStoreError,
    CorruptStoreError,
    HeadMovedError,
    NotFoundInStoreError,
    NothingChangedError,
    StoreError,
    UnpublishableFileError,
)
from perago.domain.ids import (
    BranchName,
    CommitId,
    Digest,
    ObjectPath,
    RelativePath,
    RepositoryName,
    TreeId,
)
from perago.domain.publication import Commit, StagedWorkspace
from perago.domain.workspace import ObjectEntry
from perago.ports import Branch, Clock, Fencing, LastCheck, LocalFile, OnTransfer, always_allowed
from perago.ports.store import DEFAULT_BRANCH

_BRANCH_NAME = re.compile(r"\w[-\w]*", re.ASCII)

_Objects = Mapping[ObjectPath, Digest]


@dataclass(slots=True)
class _Repository:
    name: RepositoryName
    branches: dict[BranchName, Branch] = field(default_factory=dict)
    commits: dict[CommitId, Commit] = field(default_factory=dict)

    def branch(self, name: BranchName) -> Branch:
        if name not in self.branches:
            raise NotFoundInStoreError(f"no branch {name!r} in repository {self.name!r}")
        return self.branches[name]

    def commit(self, commit: CommitId) -> Commit:
        if commit not in self.commits:
            raise NotFoundInStoreError(f"no commit {commit!r} in repository {self.name!r}")
        return self.commits[commit]

    def require_unmoved(self, name: BranchName, expected: CommitId) -> Branch:
        branch = self.branch(name)
        if branch.head != expected:
            raise HeadMovedError(
                repository=self.name, branch=name, expected=expected, actual=branch.head
            )
        return branch

    def move(self, branch: Branch, head: CommitId) -> None:
        self.branches[branch.name] = Branch(name=branch.name, head=head, hidden=branch.hidden)


class MemoryWorkspaceStore:
    """Holds everything in memory; gone with the process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._repositories: dict[RepositoryName, _Repository] = {}
        self._trees: dict[TreeId, _Objects] = {}
        self._contents: dict[Digest, bytes] = {}

    @property
    def fencing(self) -> Fencing:
        return Fencing.ATOMIC

    # -- repositories and refs

    def create_repository(
        self, repository: RepositoryName, *, branch: BranchName = DEFAULT_BRANCH
    ) -> Commit:
        with self._lock:
            if repository in self._repositories:
                raise AlreadyExistsInStoreError(f"there is already a repository {repository!r}")
            _refuse_illegal(branch)
            made = _Repository(repository)
            commit = self._commit(made, self._tree({}), (), f"Create repository {repository}", {})
            made.branches[branch] = Branch(name=branch, head=commit.id)
            self._repositories[repository] = made
            return commit

    def repositories(self) -> list[RepositoryName]:
        with self._lock:
            return sorted(self._repositories)

    def create_branch(
        self,
        repository: RepositoryName,
        branch: BranchName,
        source: CommitId,
        *,
        hidden: bool = False,
    ) -> None:
        with self._lock:
            found = self._repository(repository)
            _refuse_illegal(branch)
            found.commit(source)
            if branch in found.branches:
                raise AlreadyExistsInStoreError(
                    f"repository {repository!r} already has a branch {branch!r}"
                )
            found.branches[branch] = Branch(name=branch, head=source, hidden=hidden)

    def delete_branch(self, repository: RepositoryName, branch: BranchName) -> None:
        with self._lock:
            found = self._repository(repository)
            del found.branches[found.branch(branch).name]

    def branches(self, repository: RepositoryName, *, hidden: bool = False) -> list[Branch]:
        with self._lock:
            every = sorted(self._repository(repository).branches.items())
            return [branch for _, branch in every if hidden or not branch.hidden]

    def head(self, repository: RepositoryName, branch: BranchName) -> Commit:
        with self._lock:
            found = self._repository(repository)
            return found.commit(found.branch(branch).head)

    def read_commit(self, repository: RepositoryName, commit: CommitId) -> Commit:
        with self._lock:
            return self._repository(repository).commit(commit)

    def resolve(self, repository: RepositoryName, ref: str) -> CommitId:
        with self._lock:
            found = self._repository(repository)
            if ref in found.branches:
                return found.branches[BranchName(ref)].head
            matches = [commit for commit in found.commits if commit.startswith(ref)]
            if len(ref) < 8 or not matches:
                raise NotFoundInStoreError(f"{ref!r} is no branch and no commit of {repository!r}")
            if len(matches) > 1:
                raise StoreError(f"{ref!r} is the beginning of more than one commit")
            return matches[0]

    def log(self, repository: RepositoryName, commit: CommitId) -> Iterator[Commit]:
        parents: Sequence[CommitId] = (commit,)
        while parents:
            ancestor = self.read_commit(repository, parents[0])
            yield ancestor
            parents = ancestor.parents

    # -- objects

    def list_objects(
        self, repository: RepositoryName, commit: CommitId, prefix: str = ""
    ) -> Iterator[ObjectEntry]:
        with self._lock:
            objects = self._objects(repository, commit)
            paths = sorted((path for path in objects if path.startswith(prefix)), key=byte_order)
            return iter([self._entry(path, objects[path]) for path in paths])

    @contextmanager
    def open_object(
        self, repository: RepositoryName, commit: CommitId, path: ObjectPath
    ) -> Iterator[BinaryIO]:
        yield BytesIO(self._content(repository, commit, path))

    def checkout(
        self,
        repository: RepositoryName,
        commit: CommitId,
        files: Mapping[RelativePath, ObjectEntry],
        directory: Path,
        on_transfer: OnTransfer,
    ) -> dict[RelativePath, Digest]:
        written: dict[RelativePath, Digest] = {}
        for relative, entry in files.items():
            content = self._content(repository, commit, entry.path)
            target = directory / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(target):
                raise StoreError(f"there is a file {str(target)!r} already")
            target.write_bytes(content)
            written[relative] = content_digest(content)
            on_transfer(1, len(content))
        return written

    def make_room(self, directory: Path, needed: int) -> None:
        # It holds nothing on a disk.
        pass

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
        base = self.head(repository, branch)
        both = next((path for path in deletes if path in writes), None)
        if both is not None:
            raise StoreError(f"object {both!r} cannot be written and deleted in one commit")
        contents: dict[Digest, bytes] = {}
        for file in writes.values():
            contents[file.digest] = _read_unchanged(file)
            on_transfer(1, file.size)
        with self._lock:
            found = self._repository(repository)
            objects = dict(self._objects(repository, base.id))
            for path in deletes:
                if objects.pop(path, None) is None:
                    raise NotFoundInStoreError(f"cannot delete object {path!r}: there is none")
            tree = self._tree({**objects, **{path: file.digest for path, file in writes.items()}})
            if tree == base.tree:
                raise NothingChangedError(
                    "there is nothing to commit: the changes leave the tree as it was"
                )
            moved = found.require_unmoved(branch, base.id)
            self._contents.update(contents)
            commit = self._commit(found, tree, (base.id,), message, metadata)
            found.move(moved, commit.id)
            return commit

    # -- publication

    def merge(
        self,
        staged: StagedWorkspace,
        target: BranchName,
        *,
        expected_head: CommitId,
        message: str,
        metadata: Mapping[str, str],
        timeout_seconds: float,  # noqa: ARG002 - nothing here takes time
        last_check: LastCheck = always_allowed,
    ) -> Commit:
        last_check()()
        with self._lock:
            found = self._repository(staged.repository)
            source = found.commit(staged.commit)
            found.require_unmoved(staged.branch, staged.commit)
            branch = found.require_unmoved(target, expected_head)
            if source.tree == found.commit(expected_head).tree:
                raise NothingChangedError("there is nothing to merge: both branches hold the same")
            commit = self._commit(found, source.tree, (expected_head,), message, metadata)
            found.move(branch, commit.id)
            return commit

    def relocate(
        self,
        repository: RepositoryName,
        branch: BranchName,
        *,
        to: CommitId,
        expected_head: CommitId,
        timeout_seconds: float,  # noqa: ARG002 - nothing here takes time
        last_check: LastCheck = always_allowed,
    ) -> None:
        last_check()()
        with self._lock:
            found = self._repository(repository)
            found.commit(to)
            found.move(found.require_unmoved(branch, expected_head), to)

    # -- what the methods above are made of

    def _repository(self, name: RepositoryName) -> _Repository:
        if name not in self._repositories:
            raise NotFoundInStoreError(f"no repository {name!r} in this store")
        return self._repositories[name]

    def _objects(self, repository: RepositoryName, commit: CommitId) -> _Objects:
        return self._trees[self._repository(repository).commit(commit).tree]

    def _entry(self, path: ObjectPath, digest: Digest) -> ObjectEntry:
        return ObjectEntry(
            path=path, size=len(self._contents[digest]), checksum=digest, digest=digest
        )

    def _content(self, repository: RepositoryName, commit: CommitId, path: ObjectPath) -> bytes:
        with self._lock:
            objects = self._objects(repository, commit)
            if path not in objects:
                raise NotFoundInStoreError(f"no object {path!r} in commit {commit}")
            content = self._contents[objects[path]]
        if content_digest(content) != objects[path]:
            raise CorruptStoreError(f"the content of object {path!r} does not match its hash")
        return content

    def _tree(self, objects: _Objects) -> TreeId:
        hasher = blake3()
        for path in sorted(objects, key=byte_order):
            encoded = byte_order(path)
            hasher.update(len(encoded).to_bytes(8, "big") + encoded)
            hasher.update(bytes.fromhex(objects[path]))
        tree = TreeId(hasher.hexdigest())
        self._trees[tree] = objects
        return tree

    def _commit(
        self,
        repository: _Repository,
        tree: TreeId,
        parents: tuple[CommitId, ...],
        message: str,
        metadata: Mapping[str, str],
    ) -> Commit:
        commit = Commit(
            id=CommitId(secrets.token_hex(32)),
            parents=parents,
            tree=tree,
            message=message,
            created_at=self._clock.now(),
            metadata=dict(metadata),
        )
        repository.commits[commit.id] = commit
        return commit


def byte_order(path: str) -> bytes:
    """What listings are sorted by."""
    return path.encode("utf-8", "surrogatepass")


def content_digest(content: bytes) -> Digest:
    """Perago's hash of a content."""
    return Digest(blake3(content).hexdigest())


def _read_unchanged(file: LocalFile) -> bytes:
    try:
        descriptor = os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as stream:
            content = stream.read()
    except OSError as error:
        raise UnpublishableFileError(
            f"file {str(file.path)!r} cannot be read: {error.strerror}", path=str(file.path)
        ) from error
    if content_digest(content) != file.digest or len(content) != file.size:
        raise UnpublishableFileError(
            f"file {str(file.path)!r} changed after it was scanned",
            path=str(file.path),
            hint="nothing may write to the workspace after the body has returned",
        )
    return content


def _refuse_illegal(branch: BranchName) -> None:
    if not _BRANCH_NAME.fullmatch(branch):
        raise StoreError(
            f"{branch!r} cannot be the name of a branch",
            hint="use ASCII letters, digits, `_` and `-`, and do not begin with `-`",
        )

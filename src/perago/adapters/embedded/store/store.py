"""The `WorkspaceStore` port on SQLite and content-addressed files: no server needed.

The methods are short: queries are in `refs`, trees in `forest`, bytes in `intake` and `delivery`.

Invariant: a branch moves in one transaction that has checked where it stood, so the expected
head of a publication is honoured atomically (ADR 0003).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import BinaryIO, Self

from perago.adapters.embedded.store import refs, sql
from perago.adapters.embedded.store.database import Database
from perago.adapters.embedded.store.delivery import Delivery, Wanted
from perago.adapters.embedded.store.forest import Forest
from perago.adapters.embedded.store.garbage import collect_garbage
from perago.adapters.embedded.store.intake import Intake
from perago.adapters.embedded.store.layout import Durability, StoreHome
from perago.adapters.embedded.store.manifest import EMPTY_TREE, identify
from perago.adapters.embedded.store.records import build_record, microseconds
from perago.adapters.embedded.store.refs import Repository
from perago.adapters.embedded.store.reports import GarbageReport, VerificationReport
from perago.adapters.embedded.store.sessions import open_session
from perago.adapters.embedded.store.verification import verify_store
from perago.domain.errors import CorruptStoreError, NothingChangedError
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

DEFAULT_GRACE = timedelta(hours=24)


class EmbeddedWorkspaceStore:
    """Keeps all repositories below one home directory of a local file system.

    Opens nothing until it is used. May be used by many threads, pickled for another process
    (which then opens its own connections), and used again after `close`. The parts of a write
    that last are files under way; the transactions are short.
    """

    def __init__(
        self, home: Path, clock: Clock, *, durability: Durability = Durability.PROCESS
    ) -> None:
        self._home = StoreHome(home.absolute())
        self._clock = clock
        self._durability = Durability(durability)
        self._database = Database(self._home, self._durability)
        self._forest = Forest(self._database)
        self._delivery = Delivery(self._home, self._database)

    def __reduce__(self) -> tuple[Callable[[], EmbeddedWorkspaceStore], tuple[()]]:
        again = partial(
            EmbeddedWorkspaceStore, self._home.root, self._clock, durability=self._durability
        )
        return again, ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._database.close()

    @property
    def fencing(self) -> Fencing:
        return Fencing.ATOMIC

    # -- repositories and refs

    def create_repository(
        self, repository: RepositoryName, *, branch: BranchName = DEFAULT_BRANCH
    ) -> Commit:
        with self._database.writing() as connection:
            made = refs.insert_repository(connection, repository)
            tree = identify(EMPTY_TREE)
            connection.execute(sql.INSERT_TREE, (tree, EMPTY_TREE))
            commit = self._insert_commit(
                connection,
                made,
                TreeId(tree.hex()),
                message=f"Create repository {repository}",
                metadata={},
            )
            refs.insert_branch(connection, made, branch, commit.id, hidden=False)
        return commit

    def repositories(self) -> list[RepositoryName]:
        with self._database.reading() as connection:
            rows = connection.execute(sql.SELECT_REPOSITORIES).fetchall()
        return [RepositoryName(name) for (name,) in rows]

    def create_branch(
        self,
        repository: RepositoryName,
        branch: BranchName,
        source: CommitId,
        *,
        hidden: bool = False,
    ) -> None:
        with self._database.writing() as connection:
            found = refs.require_repository(connection, repository)
            refs.require_commit(connection, found, source)
            refs.insert_branch(connection, found, branch, source, hidden=hidden)

    def delete_branch(self, repository: RepositoryName, branch: BranchName) -> None:
        with self._database.writing() as connection:
            found = refs.require_repository(connection, repository)
            refs.require_head(connection, found, branch)
            connection.execute(sql.DELETE_BRANCH, (found.key, branch))

    def branches(self, repository: RepositoryName, *, hidden: bool = False) -> list[Branch]:
        with self._database.reading() as connection:
            found = refs.require_repository(connection, repository)
            rows = connection.execute(sql.SELECT_BRANCHES, (found.key, hidden)).fetchall()
        return [
            Branch(name=BranchName(name), head=CommitId(head), hidden=bool(is_hidden))
            for name, head, is_hidden in rows
        ]

    def head(self, repository: RepositoryName, branch: BranchName) -> Commit:
        with self._database.reading() as connection:
            found = refs.require_repository(connection, repository)
            return refs.require_commit(
                connection, found, refs.require_head(connection, found, branch)
            )

    def read_commit(self, repository: RepositoryName, commit: CommitId) -> Commit:
        with self._database.reading() as connection:
            found = refs.require_repository(connection, repository)
            return refs.require_commit(connection, found, commit)

    def resolve(self, repository: RepositoryName, ref: str) -> CommitId:
        with self._database.reading() as connection:
            found = refs.require_repository(connection, repository)
            return refs.resolve_ref(connection, found, ref)

    def log(self, repository: RepositoryName, commit: CommitId) -> Iterator[Commit]:
        ancestor = self.read_commit(repository, commit)
        yield ancestor
        while ancestor.parents:
            ancestor = self.read_commit(repository, ancestor.parents[0])
            yield ancestor

    # -- objects

    def list_objects(
        self, repository: RepositoryName, commit: CommitId, prefix: str = ""
    ) -> Iterator[ObjectEntry]:
        self.read_commit(repository, commit)  # before the first entry is asked for
        return self._list(repository, commit, prefix)

    @contextmanager
    def open_object(
        self, repository: RepositoryName, commit: CommitId, path: ObjectPath
    ) -> Iterator[BinaryIO]:
        with self._reading(repository, commit) as found:
            wanted = self._want(found, repository, [path])
            with self._delivery.open(wanted[path]) as stream:
                yield stream

    def checkout(
        self,
        repository: RepositoryName,
        commit: CommitId,
        files: Mapping[RelativePath, ObjectEntry],
        directory: Path,
        on_transfer: OnTransfer,
    ) -> dict[RelativePath, Digest]:
        with self._reading(repository, commit) as found:
            wanted = self._want(found, repository, [entry.path for entry in files.values()])
            return self._delivery.write_files(
                {path: wanted[entry.path] for path, entry in files.items()}, directory, on_transfer
            )

    def make_room(self, directory: Path, needed: int) -> None:
        # What lies in the home is the only copy.
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
        with self._database.reading() as connection:
            found = refs.require_repository(connection, repository)
            base = refs.require_commit(
                connection, found, refs.require_head(connection, found, branch)
            )
        with self._reading(repository, base.id):
            edited = self._forest.edit(base.tree, writes, deletes)
        intake = Intake(
            self._home,
            self._database,
            self._durability,
            created_at=microseconds(self._clock.now()),
        )
        digests = {bytes.fromhex(file.digest) for file in writes.values()}
        with open_session(self._home, self._database, digests) as session:
            rows = intake.take(session, writes, on_transfer)
            with self._database.writing() as connection:
                refs.require_unmoved(connection, found, branch, base.id)
                connection.executemany(sql.UPSERT_CONTENT, rows)
                connection.executemany(sql.INSERT_TREE, edited.nodes.items())
                tree = TreeId(edited.id.hex())
                commit = self._insert_commit(
                    connection, found, tree, base.id, message=message, metadata=metadata
                )
                connection.execute(sql.UPDATE_HEAD, (commit.id, found.key, branch))
                session.end(connection)
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
        timeout_seconds: float,
        last_check: LastCheck = always_allowed,
    ) -> Commit:
        # Not under the database's lock: others would wait for whoever is asked. The wait for that
        # lock is bounded by the time that the time check asks for.
        last_check()()
        with self._database.writing(timeout_seconds=timeout_seconds) as connection:
            found = refs.require_repository(connection, staged.repository)
            source = refs.require_commit(connection, found, staged.commit)
            refs.require_unmoved(connection, found, staged.branch, staged.commit)
            refs.require_unmoved(connection, found, target, expected_head)
            if source.tree == refs.require_commit(connection, found, expected_head).tree:
                raise NothingChangedError(
                    f"there is nothing to merge: {staged.branch!r} and {target!r} hold the same",
                    hint="an attempt that changed nothing publishes nothing",
                )
            commit = self._insert_commit(
                connection, found, source.tree, expected_head, message=message, metadata=metadata
            )
            connection.execute(sql.UPDATE_HEAD, (commit.id, found.key, target))
        return commit

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
        last_check()()
        with self._database.writing(timeout_seconds=timeout_seconds) as connection:
            found = refs.require_repository(connection, repository)
            refs.require_commit(connection, found, to)
            refs.require_unmoved(connection, found, branch, expected_head)
            connection.execute(sql.UPDATE_HEAD, (to, found.key, branch))

    # -- maintenance

    def gc(
        self, *, roots: Collection[CommitId] = (), grace: timedelta = DEFAULT_GRACE
    ) -> GarbageReport:
        """Remove what no branch leads to, is in no one's hands and is older than the grace period.

        `roots` are the input refs of attempts in flight (unknown ones are ignored). Writes that
        are under way are safe with any grace period. Readers of old commits that are neither
        roots nor on a branch are not.
        """
        return collect_garbage(
            self._home, self._database, roots=roots, now=self._clock.now(), grace=grace
        )

    def verify(self) -> VerificationReport:
        """Check every content, tree and commit against its hash, and every reference."""
        return verify_store(self._home, self._database)

    @contextmanager
    def _reading(self, repository: RepositoryName, commit: CommitId) -> Iterator[Commit]:
        """The commit; one that is collected meanwhile is not there, which is no damage."""
        found = self.read_commit(repository, commit)
        try:
            yield found
        except CorruptStoreError:
            self.read_commit(repository, commit)
            raise

    def _list(
        self, repository: RepositoryName, commit: CommitId, prefix: str
    ) -> Iterator[ObjectEntry]:
        with self._reading(repository, commit) as found:
            yield from self._forest.entries(found.tree, prefix)

    def _want(
        self, commit: Commit, repository: RepositoryName, paths: Collection[ObjectPath]
    ) -> dict[ObjectPath, Wanted]:
        return {
            path: Wanted(
                digest=entry.digest,
                size=entry.size,
                object_name=f"object {path!r} of {repository}@{commit.id}",
            )
            for path, entry in self._forest.find(commit.tree, paths).items()
        }

    def _insert_commit(
        self,
        connection: sqlite3.Connection,
        repository: Repository,
        tree: TreeId,
        *parents: CommitId,
        message: str,
        metadata: Mapping[str, str],
    ) -> Commit:
        now = self._clock.now()
        record = build_record(
            tree=tree, parents=parents, message=message, metadata=metadata, created_at=now
        )
        return refs.insert_commit(connection, repository, record, now)

"""Collects what nothing leads to any more.

Marks without a lock, then sweeps in short transactions, each of which first marks what new
branch heads have come to lead to. Invariants, at any moment and with any grace period:

- commits go in one transaction, so that no history is ever cut in the middle;
- a content that a living write session has pinned stays;
- a file goes only after its row is gone, and under the write lock, so a row always has its file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from perago.adapters.embedded.store import sql
from perago.adapters.embedded.store.database import Database
from perago.adapters.embedded.store.layout import StoreHome
from perago.adapters.embedded.store.manifest import decode_leaf, decode_root
from perago.adapters.embedded.store.records import microseconds, read_record
from perago.adapters.embedded.store.reports import GarbageReport
from perago.adapters.embedded.store.sessions import bury_dead_sessions, living_pins
from perago.adapters.localfs.disk_errors import disk_errors
from perago.domain.errors import CorruptStoreError
from perago.domain.ids import CommitId

_BATCH = 1000
_Item = TypeVar("_Item")


def collect_garbage(
    home: StoreHome,
    database: Database,
    *,
    roots: Collection[CommitId],
    now: datetime,
    grace: timedelta,
) -> GarbageReport:
    """Remove what is neither reachable, nor in flight, nor younger than the grace period."""
    with home.locked("maintenance"):
        temporary = bury_dead_sessions(home, database)
        sweep = _Sweep(home, database, roots=roots, oldest_kept=microseconds(now - grace))
        commits = sweep.commits()
        nodes = sweep.trees()
        contents = sweep.contents()
        temporary += sweep.files()
        database.compact()
    return GarbageReport(
        commits=commits,
        tree_nodes=len(nodes),
        contents=len(contents),
        temporary_files=len(temporary),
        bytes_freed=sum(nodes) + sum(contents) + sum(temporary),
    )


class _Marks:
    """Everything known to be reachable; grows only."""

    def __init__(self) -> None:
        self.commits: set[CommitId] = set()
        self.nodes: set[bytes] = set()
        self.contents: set[bytes] = set()

    def mark(self, connection: sqlite3.Connection, start: Collection[CommitId]) -> None:
        """Mark commits with all their ancestors, trees and contents."""
        pending = [commit for commit in start if commit not in self.commits]
        while pending:
            commit = pending.pop()
            row = connection.execute(sql.SELECT_COMMIT_ANYWHERE, (commit,)).fetchone()
            if row is None or commit in self.commits:
                continue  # an in-flight ref may be one that was never in this store
            self.commits.add(commit)
            record = read_record(commit, row[0])
            pending.extend(record.parents)
            self._mark_tree(connection, bytes.fromhex(record.tree))

    def _mark_tree(self, connection: sqlite3.Connection, tree: bytes) -> None:
        if tree in self.nodes:
            return
        for leaf in decode_root(_body(connection, tree)):
            if leaf.id not in self.nodes:
                entries = decode_leaf(_body(connection, leaf.id))
                self.contents.update(entry.digest for entry in entries)
                self.nodes.add(leaf.id)
        self.nodes.add(tree)


class _Sweep:
    """One collection under way. Every step returns the sizes of what it removed."""

    def __init__(
        self, home: StoreHome, database: Database, *, roots: Collection[CommitId], oldest_kept: int
    ) -> None:
        self._home = home
        self._database = database
        self._roots = roots
        self._oldest_kept = oldest_kept
        self._marks = _Marks()
        self._removed: set[bytes] = set()
        with database.reading() as connection:
            self._mark_roots(connection)

    def commits(self) -> int:
        with self._database.writing() as connection:
            self._mark_roots(connection)
            dead = [
                (commit,)
                for (commit,) in connection.execute(sql.SELECT_COMMIT_IDS)
                if commit not in self._marks.commits
            ]
            connection.executemany(sql.DELETE_COMMIT, dead)
        return len(dead)

    def trees(self) -> list[int]:
        with self._database.reading() as connection:
            nodes = connection.execute(sql.SELECT_TREE_SIZES).fetchall()
        freed: list[int] = []
        for batch in _batches(nodes):
            with self._database.writing() as connection:
                self._mark_roots(connection)
                dead = [(node, size) for node, size in batch if node not in self._marks.nodes]
                connection.executemany(sql.DELETE_TREE, [(node,) for node, _ in dead])
            freed += [size for _, size in dead]
        return freed

    def contents(self) -> list[int]:
        with self._database.reading() as connection:
            old = connection.execute(sql.SELECT_OLD_CONTENTS, (self._oldest_kept,)).fetchall()
        freed: list[int] = []
        for batch in _batches(old):
            with self._database.writing() as connection:
                self._mark_roots(connection)
                pinned = living_pins(self._home, connection)
                dead = [
                    (digest, size)
                    for digest, size in batch
                    if digest not in self._marks.contents and digest not in pinned
                ]
                connection.executemany(sql.DELETE_CONTENT, [(digest,) for digest, _ in dead])
            self._removed.update(digest for digest, _ in dead)
            freed += [size for _, size in dead]
        return freed

    def files(self) -> list[int]:
        """Remove every file without a row, unless a living session is about to write one.

        Returns the sizes of those that never had one: a process died before it could.
        """
        freed: list[int] = []
        for batch in _batches(self._home.stored_files()):
            with self._database.writing() as connection, disk_errors(self._home.objects, "clean"):
                pinned = living_pins(self._home, connection)
                for digest in batch:
                    row = connection.execute(sql.SELECT_CONTENT_IS_FILE, (digest,)).fetchone()
                    if row == (1,) or digest in pinned:
                        continue
                    path = self._home.object_file(digest)
                    if digest not in self._removed:
                        freed.append(path.stat().st_size)
                    path.unlink()
        return freed

    def _mark_roots(self, connection: sqlite3.Connection) -> None:
        heads = connection.execute(sql.SELECT_ALL_HEADS).fetchall()
        young = connection.execute(sql.SELECT_YOUNG_COMMITS, (self._oldest_kept,)).fetchall()
        ours = [CommitId(commit) for (commit,) in (*heads, *young)]
        self._marks.mark(connection, [*ours, *self._roots])


def _body(connection: sqlite3.Connection, node: bytes) -> bytes:
    row = connection.execute(sql.SELECT_TREE, (node,)).fetchone()
    if row is None:
        raise CorruptStoreError(
            f"the tree node {node.hex()} is missing: nothing more is collected",
            hint="`perago store verify` shows all that is affected; restore the home from a backup",
        )
    body: bytes = row[0]
    return body


def _batches(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]

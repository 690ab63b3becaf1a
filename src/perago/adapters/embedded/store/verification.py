"""Checks everything that is stored against its own hash, and every reference.

Reads one consistent view of the database; writers go on meanwhile, a collection waits.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial

from blake3 import blake3

from perago.adapters.embedded.store import sql
from perago.adapters.embedded.store.database import Database
from perago.adapters.embedded.store.layout import StoreHome
from perago.adapters.embedded.store.manifest import (
    Entry,
    LeafRef,
    decode_leaf,
    decode_path,
    decode_root,
    identify,
)
from perago.adapters.embedded.store.records import identify_record, read_record
from perago.adapters.embedded.store.reports import AffectedObject, Problem, VerificationReport
from perago.adapters.embedded.store.transfers import run_transfers
from perago.adapters.localfs.copying import OnBytes, hash_file, open_source
from perago.domain.errors import CorruptStoreError
from perago.domain.ids import CommitId, ObjectPath, RepositoryName
from perago.domain.publication import Commit

_Finding = tuple[bytes, str]
"""The digest of a damaged content, and what is wrong with it."""


def verify_store(home: StoreHome, database: Database) -> VerificationReport:
    """Hash every content, tree node and commit, and follow every reference."""
    with home.locked("maintenance"), database.reading() as connection:
        return _Verification(home, connection).run()


class _Verification:
    """One verification under way."""

    def __init__(self, home: StoreHome, connection: sqlite3.Connection) -> None:
        self._home = home
        self._connection = connection
        self._reasons: dict[bytes, str] = {}
        """What is wrong, by the digest of a content or the id of a tree node."""
        self._contents: set[bytes] = set()
        self._commits: dict[CommitId, tuple[RepositoryName, Commit]] = {}
        self._bytes = 0

    def run(self) -> VerificationReport:
        problems = [Problem(what=what) for what in self._check_database()]
        self._check_contents()
        nodes = self._check_nodes()
        problems += self._check_commits()
        problems += self._trace_damage()
        return VerificationReport(
            commits=len(self._commits),
            tree_nodes=nodes,
            contents=len(self._contents),
            bytes_checked=self._bytes,
            problems=tuple(problems),
        )

    def _check_database(self) -> Iterator[str]:
        for (said,) in self._connection.execute("PRAGMA integrity_check"):
            if said != "ok":
                yield f"the database is damaged: {said}"

    def _check_contents(self) -> None:
        files: list[Callable[[OnBytes], _Finding | None]] = []
        for digest, size, data in self._connection.execute(sql.SELECT_ALL_CONTENTS):
            self._contents.add(digest)
            self._bytes += size
            if data is None:
                files.append(partial(_check_file, self._home, digest, size))
            elif len(data) != size or blake3(data).digest() != digest:
                self._reasons[digest] = f"content {digest.hex()} does not match its hash"
        findings = run_transfers(files, lambda _objects, _size: None)
        self._reasons.update(finding for finding in findings if finding is not None)

    def _check_nodes(self) -> int:
        count = 0
        for node, body in self._connection.execute(sql.SELECT_ALL_TREES):
            count += 1
            if identify(body) != node:
                self._reasons[node] = f"tree node {node.hex()} does not match its hash"
        return count

    def _check_commits(self) -> Iterator[Problem]:
        for repository, commit, record in self._connection.execute(sql.SELECT_ALL_COMMITS):
            if identify_record(record) != commit:
                affected = AffectedObject(repository=repository, commit=commit, path=None)
                what = f"commit {commit} of {repository} does not match its hash"
                yield Problem(what=what, affected=(affected,))
                continue
            self._commits[commit] = (repository, read_record(commit, record))
        for repository, found in self._commits.values():
            for parent in found.parents:
                if parent not in self._commits:
                    affected = AffectedObject(repository=repository, commit=found.id, path=None)
                    yield Problem(
                        what=f"commit {parent} is missing or damaged", affected=(affected,)
                    )
        for repository, branch, head in self._connection.execute(sql.SELECT_ALL_BRANCHES):
            if head not in self._commits:
                yield Problem(what=f"branch {branch} of {repository} stands at no commit: {head}")

    def _trace_damage(self) -> list[Problem]:
        """Find out which commits and paths every damaged or missing thing belongs to."""
        affected: dict[bytes, list[AffectedObject]] = {key: [] for key in self._reasons}
        seen: dict[str, list[tuple[bytes, ObjectPath | None]]] = {}
        for repository, commit in self._commits.values():
            if commit.tree not in seen:
                seen[commit.tree] = list(self._damage_of(bytes.fromhex(commit.tree)))
            for key, path in seen[commit.tree]:
                affected.setdefault(key, []).append(
                    AffectedObject(repository=repository, commit=commit.id, path=path)
                )
        return [
            Problem(
                what=self._reasons.get(key, f"tree node or content {key.hex()} is missing"),
                affected=tuple(suffering),
            )
            for key, suffering in affected.items()
        ]

    def _damage_of(self, tree: bytes) -> Iterator[tuple[bytes, ObjectPath | None]]:
        """What in a tree is damaged or missing, and at which path."""
        try:
            leaves = self._leaves(tree)
        except CorruptStoreError:
            yield tree, None
            return
        for leaf in leaves:
            try:
                entries = self._entries(leaf.id)
            except CorruptStoreError:
                yield leaf.id, None
                continue
            for entry in entries:
                if entry.digest in self._reasons or entry.digest not in self._contents:
                    yield entry.digest, ObjectPath(decode_path(entry.path))

    def _leaves(self, tree: bytes) -> list[LeafRef]:
        return decode_root(self._body(tree))

    def _entries(self, leaf: bytes) -> list[Entry]:
        return decode_leaf(self._body(leaf))

    def _body(self, node: bytes) -> bytes:
        row = self._connection.execute(sql.SELECT_TREE, (node,)).fetchone()
        if row is None or node in self._reasons:
            raise CorruptStoreError(f"tree node {node.hex()} is missing or damaged")
        body: bytes = row[0]
        return body


def _check_file(home: StoreHome, digest: bytes, size: int, on_bytes: OnBytes) -> _Finding | None:
    path = home.object_file(digest)
    try:
        descriptor = open_source(path)
        try:
            found = hash_file(descriptor, on_bytes)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return digest, f"content {digest.hex()} is missing: no file {path}"
    except OSError as error:
        return digest, f"content {digest.hex()} cannot be read: {path}: {error.strerror}"
    if found[1] != size:
        return digest, f"content {digest.hex()} has {found[1]} bytes instead of {size}: {path}"
    if found[0] != digest:
        return digest, f"content {digest.hex()} does not match its hash: {path}"
    return None

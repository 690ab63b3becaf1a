"""Reads trees from the database, one node at a time.

Nodes never change, so no transaction is held while a caller walks through a listing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from perago.adapters.embedded.store import sql
from perago.adapters.embedded.store.database import Database
from perago.adapters.embedded.store.manifest import (
    EditedTree,
    Entry,
    LeafRef,
    decode_leaf,
    decode_path,
    decode_root,
    edit_tree,
    encode_path,
    find_entries,
    leaves_with_prefix,
)
from perago.domain.errors import (
    CorruptStoreError,
    NotFoundInStoreError,
    NothingChangedError,
    StoreError,
)
from perago.domain.ids import Digest, ObjectPath, TreeId
from perago.domain.workspace import ObjectEntry
from perago.ports import LocalFile


class Forest:
    """All trees of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def entries(self, tree: TreeId, prefix: str) -> Iterator[ObjectEntry]:
        """The objects of a tree whose path starts with a prefix, in order."""
        start = encode_path(prefix)
        for leaf in leaves_with_prefix(self._leaves(tree), start):
            for path, digest, size in self._leaf(leaf.id):
                if path.startswith(start):
                    yield ObjectEntry(
                        path=ObjectPath(decode_path(path)),
                        size=size,
                        checksum=digest.hex(),
                        digest=Digest(digest.hex()),
                    )

    def find(self, tree: TreeId, paths: Iterable[ObjectPath]) -> dict[ObjectPath, Entry]:
        """The entries of these objects; one that is not there raises `NotFoundInStoreError`."""
        keys = {path: encode_path(path) for path in paths}
        found = find_entries(self._leaves(tree), self._leaf, keys.values())
        for path, key in keys.items():
            if key not in found:
                raise NotFoundInStoreError(
                    f"no object {path!r} in that commit", hint="`perago store ls` shows what is"
                )
        return {path: found[key] for path, key in keys.items()}

    def edit(
        self,
        tree: TreeId,
        writes: Mapping[ObjectPath, LocalFile],
        deletes: Collection[ObjectPath],
    ) -> EditedTree:
        """The tree after the changes, which must be some."""
        both = next((path for path in deletes if path in writes), None)
        if both is not None:
            raise StoreError(f"object {both!r} cannot be written and deleted in one commit")
        entries = (
            Entry(encode_path(path), bytes.fromhex(file.digest), file.size)
            for path, file in writes.items()
        )
        edited = edit_tree(
            self._leaves(tree),
            self._leaf,
            {entry.path: entry for entry in entries},
            {encode_path(path) for path in deletes},
        )
        if edited.absent:
            absent = decode_path(min(edited.absent))
            raise NotFoundInStoreError(
                f"cannot delete object {absent!r}: the branch has none of that name"
            )
        if edited.id.hex() == tree:
            raise NothingChangedError(
                "there is nothing to commit: the changes leave the tree as it was",
                hint="compare the files with the branch before committing",
            )
        return edited

    def _leaves(self, tree: TreeId) -> list[LeafRef]:
        return decode_root(self._body(bytes.fromhex(tree)))

    def _leaf(self, leaf: bytes) -> list[Entry]:
        return decode_leaf(self._body(leaf))

    def _body(self, node: bytes) -> bytes:
        with self._database.reading() as connection:
            row = connection.execute(sql.SELECT_TREE, (node,)).fetchone()
        if row is None:
            raise CorruptStoreError(
                f"the tree node {node.hex()} is missing",
                hint="`perago store verify` shows all that is affected",
            )
        body: bytes = row[0]
        return body

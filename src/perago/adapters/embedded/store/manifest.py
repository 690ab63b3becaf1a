"""The content of a commit as a manifest: every object, in order, cut into leaves.

Pure: bytes in, bytes out. A tree is one root that names its leaves; a leaf holds a run of
entries, sorted by the UTF-8 bytes of their paths. Invariant: where a leaf ends depends on the
paths alone, never on the history, so equal content always has the equal tree id, and a change
of one object writes one leaf and the root anew. A path is never split or interpreted: any text
is as good as another (ADR 0003).
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from blake3 import blake3

from perago.domain.errors import CorruptStoreError

_HASH_BYTES = 32
_LEAF, _ROOT = b"L", b"R"


class Entry(NamedTuple):
    """One object. A tuple, because there are a hundred thousand of them."""

    path: bytes
    digest: bytes
    size: int


class LeafRef(NamedTuple):
    """What a root knows of one leaf: its id, its first path and how many entries it has."""

    id: bytes
    first: bytes
    length: int


LoadLeaf = Callable[[bytes], list[Entry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedTree:
    """A new tree, the nodes that have to be stored for it, and the deletes that hit nothing."""

    id: bytes
    nodes: Mapping[bytes, bytes]
    absent: Sequence[bytes]


def encode_path(path: str) -> bytes:
    """The bytes that order and identify a path; text that is not valid Unicode stays distinct."""
    return path.encode("utf-8", "surrogatepass")


def decode_path(path: bytes) -> str:
    """The text of a stored path."""
    return path.decode("utf-8", "surrogatepass")


def identify(body: bytes) -> bytes:
    """The id of a node, which is the hash of its body."""
    return blake3(body).digest()


def encode_leaf(entries: Sequence[Entry]) -> bytes:
    """A leaf's body: columns of sizes, digests and paths."""
    return _encode(_LEAF, [(e.path, e.digest, e.size) for e in entries])


def decode_leaf(body: bytes) -> list[Entry]:
    """The entries of a leaf, in order."""
    return [Entry(*row) for row in _decode(_LEAF, body)]


def encode_root(leaves: Sequence[LeafRef]) -> bytes:
    """A root's body; the empty tree has no leaf."""
    return _encode(_ROOT, [(leaf.first, leaf.id, leaf.length) for leaf in leaves])


def decode_root(body: bytes) -> list[LeafRef]:
    """The leaves of a root, in order."""
    return [LeafRef(leaf, first, length) for first, leaf, length in _decode(_ROOT, body)]


def edit_tree(
    leaves: Sequence[LeafRef],
    load: LoadLeaf,
    writes: Mapping[bytes, Entry],
    deletes: Collection[bytes],
) -> EditedTree:
    """The tree after the changes; only leaves that a change falls into are loaded."""
    absent: list[bytes] = []
    changes = _changes_by_leaf(leaves, writes, deletes)
    edited: list[LeafRef] = []
    nodes: dict[bytes, bytes] = {}
    position = 0
    while position < max(1, len(leaves)):
        if position not in changes:
            edited.extend(leaves[position : position + 1])
            position += 1
            continue
        entries: list[Entry] = []
        while True:
            old = load(leaves[position].id) if leaves else []
            entries += _apply(old, changes.get(position, {}), absent)
            position += 1
            # A run that does not end where a leaf ends flows on into the next leaf.
            if position >= len(leaves) or not entries or _ends_leaf(entries[-1].path):
                break
        for run in _split(entries):
            body = encode_leaf(run)
            leaf = LeafRef(identify(body), run[0].path, len(run))
            nodes[leaf.id] = body
            edited.append(leaf)
    root = encode_root(edited)
    nodes[identify(root)] = root
    return EditedTree(id=identify(root), nodes=nodes, absent=absent)


def leaves_with_prefix(leaves: Sequence[LeafRef], prefix: bytes) -> Iterator[LeafRef]:
    """The leaves that can hold a path that starts with the prefix."""
    start = max(0, _leaf_of(leaves, prefix))
    for leaf in leaves[start:]:
        if leaf.first > prefix and not leaf.first.startswith(prefix):
            return
        yield leaf


def find_entries(
    leaves: Sequence[LeafRef], load: LoadLeaf, paths: Iterable[bytes]
) -> dict[bytes, Entry]:
    """The entries of those paths that are in the tree; each leaf is loaded once at most."""
    wanted: dict[int, list[bytes]] = {}
    for path in paths:
        wanted.setdefault(_leaf_of(leaves, path), []).append(path)
    found: dict[bytes, Entry] = {}
    for position, candidates in wanted.items():
        if position < 0:
            continue
        held = {entry.path: entry for entry in load(leaves[position].id)}
        found.update((path, held[path]) for path in candidates if path in held)
    return found


def _changes_by_leaf(
    leaves: Sequence[LeafRef], writes: Mapping[bytes, Entry], deletes: Collection[bytes]
) -> dict[int, dict[bytes, Entry | None]]:
    changes: dict[int, dict[bytes, Entry | None]] = {}
    for path in deletes:
        changes.setdefault(max(0, _leaf_of(leaves, path)), {})[path] = None
    for path, entry in writes.items():
        changes.setdefault(max(0, _leaf_of(leaves, path)), {})[path] = entry
    return changes


def _leaf_of(leaves: Sequence[LeafRef], path: bytes) -> int:
    """The last leaf that begins at or before the path; -1 when all begin after it."""
    return bisect_right(leaves, path, key=lambda leaf: leaf.first) - 1


def _apply(
    entries: Iterable[Entry], changes: Mapping[bytes, Entry | None], absent: list[bytes]
) -> list[Entry]:
    held = {entry.path: entry for entry in entries}
    for path, entry in changes.items():
        if entry is not None:
            held[path] = entry
        elif held.pop(path, None) is None:
            absent.append(path)
    return sorted(held.values())


def _ends_leaf(path: bytes) -> bool:
    """Whether a leaf ends with this path: true for one in 256 on average.

    The multiplication breaks CRC's linearity: names that count upwards would otherwise be able
    to miss the mark for ever.
    """
    return (zlib.crc32(path) * 0x9E3779B1) & 0xFF000000 == 0


def _split(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    start = 0
    for end, entry in enumerate(entries, 1):
        if _ends_leaf(entry.path):
            yield entries[start:end]
            start = end
    if start < len(entries):
        yield entries[start:]


def _encode(kind: bytes, rows: Sequence[tuple[bytes, bytes, int]]) -> bytes:
    count = len(rows)
    return b"".join(
        (
            kind,
            struct.pack(">I", count),
            struct.pack(f">{count}Q", *(number for _, _, number in rows)),
            struct.pack(f">{count}I", *(len(path) for path, _, _ in rows)),
            *(hashed for _, hashed, _ in rows),
            *(path for path, _, _ in rows),
        )
    )


def _decode(kind: bytes, body: bytes) -> Iterator[tuple[bytes, bytes, int]]:
    try:
        (count,) = struct.unpack_from(">I", body, 1)
        numbers = struct.unpack_from(f">{count}Q", body, 5)
        lengths = struct.unpack_from(f">{count}I", body, 5 + 8 * count)
    except struct.error as error:
        raise CorruptStoreError("a node of a tree is cut short") from error
    hashed = 5 + 12 * count
    path = hashed + _HASH_BYTES * count
    if body[:1] != kind or len(body) != path + sum(lengths):
        raise CorruptStoreError("a node of a tree has the wrong kind or length")
    for number, length in zip(numbers, lengths, strict=True):
        yield body[path : path + length], body[hashed : hashed + _HASH_BYTES], number
        hashed += _HASH_BYTES
        path += length


EMPTY_TREE = encode_root([])
"""The root of a repository without objects."""

"""Manifests: what a change touches, and what a damaged node is taken for."""

import pytest
from blake3 import blake3

from perago.adapters.embedded.store.manifest import (
    EMPTY_TREE,
    EditedTree,
    Entry,
    LeafRef,
    decode_leaf,
    decode_root,
    edit_tree,
    encode_leaf,
    encode_root,
    find_entries,
    identify,
    leaves_with_prefix,
)
from perago.domain.errors import CorruptStoreError


def entry(path: str, content: bytes = b"x") -> Entry:
    return Entry(path.encode(), blake3(content).digest(), len(content))


def build(*paths: str) -> EditedTree:
    return edit_tree([], decode_leaf, {e.path: e for e in map(entry, paths)}, ())


def refuse_to_load(leaf: bytes) -> list[Entry]:
    raise AssertionError(f"leaf {leaf.hex()} must not be loaded")


PATHS = [f"part-{n:05}" for n in range(5_000)]


def test_many_paths_make_leaves_of_a_bearable_size() -> None:
    tree = build(*PATHS)
    lengths = [leaf.length for leaf in decode_root(tree.nodes[tree.id])]
    assert sum(lengths) == len(PATHS)
    assert 5 < len(lengths) < 60
    assert max(lengths) < 2_500


def test_one_change_writes_one_leaf_and_the_root() -> None:
    tree = build(*PATHS)
    leaves = decode_root(tree.nodes[tree.id])
    loaded: list[bytes] = []

    def load(leaf: bytes) -> list[Entry]:
        loaded.append(leaf)
        return decode_leaf(tree.nodes[leaf])

    changed = entry("part-02500", b"changed")
    edited = edit_tree(leaves, load, {changed.path: changed}, ())
    assert len(loaded) == 1
    assert len(edited.nodes) == 2
    assert len(edited.nodes.keys() - tree.nodes.keys()) == 2


def test_no_change_loads_nothing() -> None:
    tree = build(*PATHS)
    edited = edit_tree(decode_root(tree.nodes[tree.id]), refuse_to_load, {}, ())
    assert edited.id == tree.id


def test_a_delete_of_what_is_not_there_is_told() -> None:
    tree = build("a", "c")
    leaves = decode_root(tree.nodes[tree.id])
    edited = edit_tree(leaves, lambda leaf: decode_leaf(tree.nodes[leaf]), {}, [b"a", b"b", b"d"])
    assert sorted(edited.absent) == [b"b", b"d"]
    assert edit_tree([], refuse_to_load, {}, [b"a"]).absent == [b"a"]


def test_the_empty_tree_has_nothing() -> None:
    assert decode_root(EMPTY_TREE) == []
    assert find_entries([], refuse_to_load, [b"a"]) == {}
    assert list(leaves_with_prefix([], b"a")) == []
    assert build().id == identify(EMPTY_TREE)


def test_a_path_before_the_first_leaf_is_not_looked_for() -> None:
    leaves = [LeafRef(b"1" * 32, b"m", 1)]
    assert find_entries(leaves, refuse_to_load, [b"a"]) == {}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"L",
        b"L\xff\xff\xff\xff",
        encode_root([]),
        encode_leaf([entry("a")])[:-1],
        encode_leaf([entry("a")]) + b"x",
    ],
)
def test_a_damaged_leaf_is_refused(body: bytes) -> None:
    with pytest.raises(CorruptStoreError):
        decode_leaf(body)

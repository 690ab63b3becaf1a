"""Laws of manifests: the tree is a function of the content, whatever way led to it."""

from collections.abc import Mapping

from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from perago.adapters.embedded.store.manifest import (
    Entry,
    decode_leaf,
    decode_path,
    decode_root,
    edit_tree,
    encode_path,
    find_entries,
    leaves_with_prefix,
)

# Any text, and clusters of near neighbours, so that edits fall together and leaves end.
PATHS = st.one_of(
    st.text(max_size=6),
    st.text(alphabet="/ab", max_size=4),
    st.integers(0, 3_000).map(lambda n: f"part-{n:04}"),
)
CONTENTS = st.dictionaries(PATHS, st.integers(0, 3), max_size=30)
RANGES = st.tuples(st.integers(0, 3_000), st.integers(0, 900)).map(
    lambda pair: {f"part-{n:04}": 0 for n in range(pair[0], min(3_000, sum(pair)))}
)


class Forest:
    """Trees in a dictionary."""

    def __init__(self) -> None:
        self.nodes: dict[bytes, bytes] = {}

    def edit(self, tree: bytes | None, writes: Mapping[str, int], deletes: set[str]) -> bytes:
        leaves = decode_root(self.nodes[tree]) if tree else []
        entries = [
            Entry(encode_path(path), blake3(bytes([content])).digest(), content)
            for path, content in writes.items()
        ]
        edited = edit_tree(
            leaves,
            lambda leaf: decode_leaf(self.nodes[leaf]),
            {entry.path: entry for entry in entries},
            {encode_path(path) for path in deletes},
        )
        assert not edited.absent
        self.nodes.update(edited.nodes)
        return edited.id

    def contents(self, tree: bytes, prefix: str = "") -> list[tuple[str, int]]:
        return [
            (decode_path(entry.path), entry.size)
            for leaf in leaves_with_prefix(decode_root(self.nodes[tree]), encode_path(prefix))
            for entry in decode_leaf(self.nodes[leaf.id])
            if entry.path.startswith(encode_path(prefix))
        ]


@given(st.one_of(CONTENTS, RANGES), st.one_of(CONTENTS, RANGES), st.data())
def test_the_way_to_a_content_leaves_no_trace(
    first: Mapping[str, int], second: Mapping[str, int], data: st.DataObject
) -> None:
    forest = Forest()
    removed = data.draw(st.sets(st.sampled_from(sorted(first)))) if first else set()
    gone = removed - second.keys()
    winding = forest.edit(forest.edit(None, first, set()), second, gone)
    content = {path: size for path, size in first.items() if path not in gone} | dict(second)
    assert forest.edit(None, content, set()) == winding
    assert forest.contents(winding) == sorted(
        content.items(), key=lambda item: encode_path(item[0])
    )


@given(st.one_of(CONTENTS, RANGES), PATHS, st.lists(PATHS))
def test_what_is_listed_and_found_is_what_is_there(
    content: Mapping[str, int], prefix: str, wanted: list[str]
) -> None:
    forest = Forest()
    tree = forest.edit(None, content, set())
    expected = {path: size for path, size in content.items() if path.startswith(prefix)}
    assert dict(forest.contents(tree, prefix)) == expected
    paths = [*wanted, *list(content)[:5]]
    found = find_entries(
        decode_root(forest.nodes[tree]),
        lambda leaf: decode_leaf(forest.nodes[leaf]),
        map(encode_path, paths),
    )
    sizes = {decode_path(path): entry.size for path, entry in found.items()}
    assert sizes == {path: content[path] for path in paths if path in content}


@given(CONTENTS, CONTENTS)
def test_trees_are_equal_only_when_contents_are(
    one: Mapping[str, int], other: Mapping[str, int]
) -> None:
    forest = Forest()
    equal = forest.edit(None, one, set()) == forest.edit(None, other, set())
    assert equal == (one == other)

"""Canonical trees: the id of a tree depends on its content alone."""

from __future__ import annotations

from perago.testing.store_contract.bench import MAIN, StoreBench


class CanonicalTreeContract:
    """For stores that promise more than the port: equal content has the equal tree.

    The port promises the converse only, that equal trees have equal content: lakeFS cuts a tree
    into ranges as its history happened to go.
    """

    def test_equal_content_has_the_equal_tree_whatever_led_to_it(self, bench: StoreBench) -> None:
        many = {f"part-{n:04}": bytes([n % 7]) for n in range(300)}
        straight = bench.repository(many)
        winding = bench.repository(dict(list(many.items())[::2]) | {"extra/x": b"x", "a": b"y"})
        bench.commit(winding, MAIN, dict(list(many.items())[1::2]), ["a"])
        bench.commit(winding, MAIN, {"part-0000": b"detour"})
        bench.commit(winding, MAIN, {"part-0000": many["part-0000"]}, ["extra/x"])
        trees = {bench.store.head(repository, MAIN).tree for repository in (straight, winding)}
        assert len(trees) == 1

    def test_what_is_emptied_has_the_tree_of_what_was_never_filled(self, bench: StoreBench) -> None:
        name = bench.name("emptied")
        first = bench.store.create_repository(name)
        bench.commit(name, MAIN, {"a": b"1", "b/c": b"2"})
        assert bench.commit(name, MAIN, {}, ["a", "b/c"]).tree == first.tree

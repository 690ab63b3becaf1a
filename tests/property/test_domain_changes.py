"""Laws of the difference between two trees."""

from hypothesis import given

from perago.domain.changes import Tree, apply_changes, diff_trees
from perago.testing.strategies import trees


@given(trees())
def test_equal_trees_give_an_empty_difference(tree: Tree) -> None:
    assert diff_trees(tree, dict(tree)).is_empty


@given(trees(), trees())
def test_a_difference_is_empty_only_between_equal_trees(old: Tree, new: Tree) -> None:
    assert diff_trees(old, new).is_empty is (old == new)


@given(trees(), trees())
def test_applying_a_difference_to_the_old_tree_gives_the_new_one(old: Tree, new: Tree) -> None:
    assert apply_changes(diff_trees(old, new), old) == new


@given(trees(), trees())
def test_a_difference_is_minimal(old: Tree, new: Tree) -> None:
    changes = diff_trees(old, new)
    assert changes.added.keys() == new.keys() - old.keys()
    assert changes.removed == old.keys() - new.keys()
    assert all(path in old and old[path] != new[path] for path in changes.modified)
    assert len(changes.written) == len(changes.added) + len(changes.modified)
    assert changes.removed.isdisjoint(changes.written)

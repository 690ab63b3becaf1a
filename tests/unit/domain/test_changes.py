"""What counts as a change, and which changes a task may not make."""

from dataclasses import replace

import pytest

from perago.domain.changes import (
    ChangeSet,
    Tree,
    apply_changes,
    diff_trees,
    refuse_hook_changes,
)
from perago.domain.errors import UnpublishableFileError
from perago.domain.ids import Digest, RelativePath
from perago.domain.workspace import Prefix

ONE, TWO = Digest("1"), Digest("2")


def tree(**contents: Digest) -> Tree:
    return {RelativePath(path): digest for path, digest in contents.items()}


def paths(*names: str) -> frozenset[RelativePath]:
    return frozenset(RelativePath(name) for name in names)


@pytest.mark.parametrize(
    ("old", "new", "added", "modified", "removed"),
    [
        pytest.param({}, {}, {}, {}, paths(), id="two empty trees"),
        pytest.param(tree(a=ONE), tree(a=ONE), {}, {}, paths(), id="touched, same content"),
        pytest.param({}, tree(a=ONE), tree(a=ONE), {}, paths(), id="new"),
        pytest.param(tree(a=ONE), {}, {}, {}, paths("a"), id="gone"),
        pytest.param(tree(a=ONE), tree(a=TWO), {}, tree(a=TWO), paths(), id="rewritten"),
        pytest.param(tree(a=ONE), tree(b=ONE), tree(b=ONE), {}, paths("a"), id="renamed"),
        pytest.param(
            tree(a=ONE, b=TWO), tree(a=TWO, b=ONE), {}, tree(a=TWO, b=ONE), paths(), id="swapped"
        ),
    ],
)
def test_differences(
    old: Tree, new: Tree, added: Tree, modified: Tree, removed: frozenset[RelativePath]
) -> None:
    changes = diff_trees(old, new)
    assert changes == ChangeSet(added=added, modified=modified, removed=removed)
    assert changes.is_empty is (old == new)
    assert changes.written == {**added, **modified}
    assert apply_changes(changes, old) == new


@pytest.mark.parametrize(
    ("prefix", "path"),
    [
        ("/", "_lakefs_actions/fence.yaml"),
        ("/", "_lakefs_actions/deep/er.lua"),
        ("_lakefs_actions", "fence.yaml"),
        ("_lakefs_actions/deep", "er.lua"),
    ],
)
@pytest.mark.parametrize("kind", ["added", "modified", "removed"])
def test_hooks_may_not_be_changed(prefix: str, path: str, kind: str) -> None:
    name = RelativePath(path)
    old = {} if kind == "added" else {name: ONE}
    new = {} if kind == "removed" else {name: TWO}
    with pytest.raises(UnpublishableFileError) as caught:
        refuse_hook_changes(diff_trees(old, new), Prefix.parse(prefix))
    assert caught.value.path == path
    assert str(Prefix.parse(prefix).join(path)) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("prefix", "path"),
    [
        ("/", "data/_lakefs_actions/x"),
        ("/", "_lakefs_actions-old/x"),
        ("/", "_lakefs_actions"),
        ("data", "_lakefs_actions/x"),
    ],
)
def test_names_that_only_resemble_hooks_are_fine(prefix: str, path: str) -> None:
    changes = diff_trees({}, {RelativePath(path): ONE})
    refuse_hook_changes(changes, Prefix.parse(prefix))


def test_hooks_that_stay_as_they_are_do_not_matter() -> None:
    hook = {RelativePath("_lakefs_actions/fence.yaml"): ONE}
    refuse_hook_changes(diff_trees(hook, {**hook, RelativePath("a"): ONE}), Prefix())


def test_a_removed_directory_marker_is_a_change_and_a_hook_is_a_hook() -> None:
    nothing = diff_trees({}, {})
    gone = replace(nothing, removed_markers=frozenset({RelativePath("_lakefs_actions/x")}))

    assert nothing.is_empty
    assert not gone.is_empty
    with pytest.raises(UnpublishableFileError, match="_lakefs_actions/x"):
        refuse_hook_changes(gone, Prefix())

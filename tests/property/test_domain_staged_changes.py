"""Laws of what is kept of a body's own writes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perago.domain.errors import UnmappableObjectError, UnpublishableFileError
from perago.domain.ids import ObjectPath
from perago.domain.staged_changes import ChangeKind, ObjectChange, is_stray, judge_changes
from perago.domain.workspace import (
    ACTIONS_DIRECTORY,
    ObjectEntry,
    Prefix,
    explain_unsafe_path,
    is_reserved,
    map_objects,
)
from perago.testing.strategies import object_names, prefixes


def changes_to(names: st.SearchStrategy[ObjectPath]) -> st.SearchStrategy[list[ObjectChange]]:
    change = st.builds(
        ObjectChange,
        path=names,
        kind=st.sampled_from(ChangeKind),
        size=st.integers(min_value=0, max_value=3),
    )
    found = st.lists(change, max_size=8, unique_by=lambda one: one.path)
    return found.map(lambda changes: sorted(changes, key=lambda one: one.path))


@st.composite
def judgements(draw: st.DrawFn) -> tuple[Prefix, list[ObjectChange]]:
    prefix = draw(prefixes())
    below = object_names().map(prefix.join)
    return prefix, draw(changes_to(st.one_of(below, object_names())))


@given(judgements())
@example((Prefix(), [ObjectChange(path=ObjectPath(""), kind=ChangeKind.CHANGED, size=0)]))
@example((Prefix("p/"), [ObjectChange(path=ObjectPath("p/"), kind=ChangeKind.CHANGED, size=0)]))
def test_every_change_is_kept_removed_or_refused(case: tuple[Prefix, list[ObjectChange]]) -> None:
    prefix, changes = case
    try:
        judged = judge_changes(changes, prefix)
    except UnpublishableFileError:
        return
    assert len(judged.strays) + judged.kept.written + judged.kept.deleted == len(changes)
    assert judged.strays == tuple(one.path for one in changes if is_stray(one, prefix))
    kept = [change for change in changes if not is_stray(change, prefix)]
    for change in kept:
        assert prefix.contains(change.path)
        assert not change.path.startswith(ACTIONS_DIRECTORY)
        assert not is_reserved(prefix.relative(change.path))
        if change.kind is not ChangeKind.REMOVED:
            of_the_prefix_itself = change.path == prefix.key != ""
            relative = prefix.relative(change.path)
            assert of_the_prefix_itself or explain_unsafe_path(relative.removesuffix("/")) is None


@given(judgements())
def test_nothing_is_left_to_remove_once_the_strays_are_gone(
    case: tuple[Prefix, list[ObjectChange]],
) -> None:
    prefix, changes = case
    try:
        judged = judge_changes(changes, prefix)
    except UnpublishableFileError:
        return
    again = judge_changes([one for one in changes if one.path not in judged.strays], prefix)
    assert again.strays == ()
    assert (again.kept, again.fingerprint) == (judged.kept, judged.fingerprint)


NAMES = st.lists(st.sampled_from(["a", "b", "a-", "a.b"]), min_size=1, max_size=3).map("/".join)


@given(changes_to(NAMES.map(ObjectPath)))
def test_what_is_kept_can_be_laid_out_as_files(changes: list[ObjectChange]) -> None:
    entries = [
        ObjectEntry(path=change.path, size=change.size, checksum="")
        for change in changes
        if change.kind is not ChangeKind.REMOVED
    ]
    try:
        map_objects(Prefix(), entries)
    except UnmappableObjectError:
        with pytest.raises(UnpublishableFileError):
            judge_changes(changes, Prefix())
    else:
        judge_changes(changes, Prefix())

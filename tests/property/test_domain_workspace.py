"""Laws of prefixes and of the mapping between objects and files."""

import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.errors import DeclarationError, UnmappableObjectError
from perago.domain.ids import ObjectPath
from perago.domain.workspace import (
    ObjectEntry,
    Prefix,
    WorkspaceLayout,
    explain_unsafe_path,
    is_reserved,
    map_objects,
    parents_of,
)
from perago.testing.strategies import (
    object_entries,
    object_names,
    prefixes,
    safe_paths,
    wild_text,
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A real directory, by its real name."""
    return os.path.realpath(tmp_path_factory.mktemp("files"))


def lies_within(directory: str, path: str) -> bool:
    real = os.path.realpath(os.path.join(directory, path))  # noqa: PTH118 - pathlib tidies names
    return real.startswith(directory + os.sep)


def mapped(
    prefix: Prefix, entries: list[ObjectEntry], *, folds_case: bool = False
) -> WorkspaceLayout | None:
    try:
        return map_objects(prefix, entries, folds_case=folds_case)
    except UnmappableObjectError:
        return None


@given(object_names() | wild_text())
def test_no_name_leads_out_of_the_directory(directory: str, name: str) -> None:
    if explain_unsafe_path(name) is None:
        assert "\x00" not in name
        assert lies_within(directory, name)
        # Nothing was normalised away either: every part of the name is a part of the path.
        assert os.path.normpath(name) == name
        os.fsencode(name)


@given(prefixes(), st.data())
def test_no_object_leads_out_of_the_directory(
    directory: str, prefix: Prefix, data: st.DataObject
) -> None:
    entry = data.draw(object_entries(prefix))
    layout = mapped(prefix, [entry])
    if layout is not None:
        assert all(lies_within(directory, path) for path in (*layout.files, *layout.markers))


@pytest.mark.parametrize("name", ["..", "../x", "/etc/passwd", "a/../../x"])
def test_the_check_itself_can_fail(directory: str, name: str) -> None:
    assert not lies_within(directory, name)


@st.composite
def repositories(draw: st.DrawFn) -> tuple[Prefix, list[ObjectEntry]]:
    """Objects below a prefix, no two of one name; half the time of harmless names only."""
    prefix = draw(prefixes())
    harmless = st.builds(
        ObjectEntry,
        path=st.tuples(safe_paths(), st.sampled_from(["", "", "/"])).map("".join).map(prefix.join),
        size=st.just(0),
        checksum=st.just(""),
    )
    entries = draw(st.sampled_from([harmless, object_entries(prefix)]))
    return prefix, draw(st.lists(entries, max_size=5, unique_by=lambda entry: entry.path))


@given(repositories())
def test_objects_and_files_are_a_bijection(
    repository: tuple[Prefix, list[ObjectEntry]],
) -> None:
    prefix, entries = repository
    layout = mapped(prefix, entries)
    if layout is None:
        return
    assert all(prefix.join(path) == entry.path for path, entry in layout.files.items())
    assert all(prefix.join(path) + "/" == entry.path for path, entry in layout.markers.items())
    left_out = {
        entry.path
        for entry in entries
        if is_reserved(prefix.relative(entry.path)) or (prefix.key and entry.path == prefix.key)
    }
    objects = [*layout.files.values(), *layout.markers.values()]
    assert sorted(entry.path for entry in objects) == sorted(
        entry.path for entry in entries if entry.path not in left_out
    )


@given(repositories())
def test_no_file_is_a_directory_too(repository: tuple[Prefix, list[ObjectEntry]]) -> None:
    layout = mapped(*repository)
    if layout is not None:
        directories: set[str] = {*layout.markers}
        for path in (*layout.files, *layout.markers):
            directories.update(parents_of(path))
        assert directories.isdisjoint(layout.files)


@given(repositories())
def test_a_layout_can_be_written(
    tmp_path_factory: pytest.TempPathFactory, repository: tuple[Prefix, list[ObjectEntry]]
) -> None:
    layout = mapped(*repository)
    if layout is not None:
        root = tmp_path_factory.mktemp("workspace")
        for path in layout.markers:
            (root / path).mkdir(parents=True, exist_ok=True)
        for path in layout.files:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).touch(exist_ok=False)
        written = {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}
        assert written == set(layout.files)


@given(repositories())
def test_folding_only_refuses_and_leaves_no_twins(
    repository: tuple[Prefix, list[ObjectEntry]],
) -> None:
    prefix, entries = repository
    folded = mapped(prefix, entries, folds_case=True)
    if folded is not None:
        assert folded == mapped(prefix, entries)
        names: set[str] = {*folded.files, *folded.markers}
        names.update(parent for path in tuple(names) for parent in parents_of(path))
        for fold in (str.lower, str.upper, str.casefold):
            assert len({unicodedata.normalize("NFC", fold(name)) for name in names}) == len(names)


# -- prefixes


@given(wild_text() | object_names())
def test_a_prefix_is_a_safe_path_or_refused(text: str) -> None:
    try:
        prefix = Prefix.parse(text)
    except DeclarationError:
        return
    if prefix.key:
        assert explain_unsafe_path(prefix.key.removesuffix("/")) is None
    assert Prefix.parse(str(prefix)) == prefix


@given(safe_paths(), st.sampled_from(["", "/"]), st.sampled_from(["", "/"]))
def test_slashes_at_the_ends_of_a_prefix_do_not_matter(path: str, before: str, after: str) -> None:
    assert Prefix.parse(before + path + after) == Prefix.parse(path)


@given(prefixes(), wild_text())
def test_join_and_relative_are_inverse(prefix: Prefix, text: str) -> None:
    assert prefix.contains(prefix.join(text))
    assert prefix.relative(prefix.join(text)) == text


@given(safe_paths(), safe_paths())
def test_a_prefix_contains_what_lies_below_it_and_nothing_else(outer: str, path: str) -> None:
    inside = path.split("/")[: outer.count("/") + 1] == outer.split("/") and path != outer
    prefix = Prefix.parse(outer)
    assert prefix.contains(path) is inside
    assert not prefix.contains(f"{outer}-old/{path}")
    if inside:
        assert prefix.join(prefix.relative(ObjectPath(path))) == path

"""Prefixes, and the mapping between objects and files, rule by rule."""

import pytest

from perago.domain.errors import DeclarationError, UnmappableObjectError
from perago.domain.ids import ObjectPath
from perago.domain.workspace import (
    MARKER_NAME,
    MAX_PART_BYTES,
    MAX_PATH_BYTES,
    ObjectEntry,
    Prefix,
    WorkspaceLayout,
    disk_use,
    explain_unsafe_path,
    is_reserved,
    map_objects,
    parents_of,
)


def entry(path: str, size: int = 1) -> ObjectEntry:
    return ObjectEntry(path=ObjectPath(path), size=size, checksum="")


def layout_of(*paths: str, prefix: str = "/", folds_case: bool = False) -> WorkspaceLayout:
    """Map objects of one byte, and markers of none."""
    entries = [entry(path, size=0 if path.endswith("/") else 1) for path in paths]
    return map_objects(Prefix.parse(prefix), entries, folds_case=folds_case)


# -- prefixes


@pytest.mark.parametrize(
    ("declared", "key", "shown"),
    [
        ("/", "", "/"),
        ("audio", "audio/", "audio"),
        ("audio/render", "audio/render/", "audio/render"),
        ("/audio/render", "audio/render/", "audio/render"),
        ("audio/render/", "audio/render/", "audio/render"),
        ("/audio/render/", "audio/render/", "audio/render"),
        ("with space/100%/#+", "with space/100%/#+/", "with space/100%/#+"),
        ("航班", "航班/", "航班"),
        ("...", ".../", "..."),
    ],
)
def test_a_prefix_is_normalised_once(declared: str, key: str, shown: str) -> None:
    prefix = Prefix.parse(declared)
    assert prefix.key == key
    assert str(prefix) == shown
    assert Prefix.parse(shown) == prefix


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("", "empty part"),
        ("//", "empty part"),
        ("///", "empty part"),
        ("a//b", "empty part"),
        ("//a", "empty part"),
        ("a//", "empty part"),
        (".", "'.'"),
        ("./a", "'.'"),
        ("..", "'..'"),
        ("/..", "'..'"),
        ("a/../b", "'..'"),
        ("a\nb", "control character"),
        ("a\x00", "control character"),
        ("a\x7f", "control character"),
        ("\udcff", "not valid UTF-8"),
        ("x" * (MAX_PART_BYTES + 1), "longer than 255 bytes"),
    ],
)
def test_a_prefix_that_is_no_plain_path_is_refused(declared: str, reason: str) -> None:
    with pytest.raises(DeclarationError, match=reason) as caught:
        Prefix.parse(declared)
    assert repr(declared) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("key", ["a", "/", "a//", "../", "/a/", "a/./"])
def test_a_prefix_cannot_be_made_around_the_rules(key: str) -> None:
    with pytest.raises(ValueError, match=r"Prefix\.parse"):
        Prefix(key)


@pytest.mark.parametrize(
    ("prefix", "path", "inside"),
    [
        ("/", "anything/at/all", True),
        ("/", "", True),
        ("audio/render", "audio/render/x", True),
        ("audio/render", "audio/render/", True),
        ("audio/render", "audio/render", False),
        ("audio/render", "audio/render-old/x", False),
        ("audio/render", "audio/x", False),
        ("audio/render", "AUDIO/render/x", False),
    ],
)
def test_containment(prefix: str, path: str, inside: bool) -> None:
    parsed = Prefix.parse(prefix)
    assert parsed.contains(path) is inside
    if inside:
        assert parsed.join(parsed.relative(ObjectPath(path))) == path
    else:
        with pytest.raises(ValueError, match="not below prefix"):
            parsed.relative(ObjectPath(path))


# -- mapping


def test_objects_below_a_prefix_become_files_below_the_directory() -> None:
    layout = layout_of("audio/render/a", "audio/render/b/c", prefix="audio/render")
    assert {path: item.path for path, item in layout.files.items()} == {
        "a": "audio/render/a",
        "b/c": "audio/render/b/c",
    }
    assert layout.markers == {}


def test_the_whole_repository_keeps_its_names() -> None:
    layout = layout_of("a", "b/c")
    assert {path: item.path for path, item in layout.files.items()} == {"a": "a", "b/c": "b/c"}


def test_an_empty_prefix_is_an_empty_workspace() -> None:
    assert layout_of() == WorkspaceLayout()
    assert layout_of().total_bytes == 0


def test_an_object_outside_the_prefix_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="not below prefix"):
        layout_of("audio/render-old/x", prefix="audio/render")


@pytest.mark.parametrize(
    "name",
    [
        "with space",
        " leading and trailing ",
        "100%",
        "%2e%2e/x",
        "#fragment",
        "a+b",
        "~",
        "-rf",
        "...",
        "..a",
        ".hidden",
        "back\\slash",
        "C:",
        "航班/数据.csv",
        "a\u0308",
        "e\u200bzero width",
        "x" * MAX_PART_BYTES,
        "/".join("abcdefgh"),
    ],
)
def test_odd_names_that_are_fine(name: str) -> None:
    assert list(layout_of(name).files) == [name]
    assert explain_unsafe_path(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../x", r"'\.\.'"),
        ("a/../b", r"'\.\.'"),
        ("a/..", r"'\.\.'"),
        (".", r"'\.'"),
        ("a/./b", r"'\.'"),
        ("/abs", "begins with '/'"),
        ("/", "empty"),
        ("//", "begins with '/'"),
        ("a//b", "empty"),
        ("a//", "empty"),
        ("a\x00b", "control character"),
        ("tab\t", "control character"),
        ("line\nbreak", "control character"),
        ("del\x7f", "control character"),
        ("c1\x85", "control character"),
        ("\x1b[31m/", "control character"),
        ("\udcff", "not valid UTF-8"),
        ("a/" + "x" * (MAX_PART_BYTES + 1), "longer than 255 bytes"),
        ("é" * 128, "longer than 255 bytes"),
    ],
)
@pytest.mark.parametrize("prefix", ["/", "audio/render"])
def test_an_object_that_cannot_be_a_file_is_refused_by_name(
    name: str, reason: str, prefix: str
) -> None:
    path = Prefix.parse(prefix).join(name)
    with pytest.raises(UnmappableObjectError, match=reason) as caught:
        layout_of(Prefix.parse(prefix).join("fine"), path, prefix=prefix)
    assert caught.value.object_path == path
    assert repr(path) in caught.value.message


def test_an_object_without_a_name_is_refused() -> None:
    with pytest.raises(UnmappableObjectError, match="empty"):
        layout_of("")


@pytest.mark.parametrize(
    ("paths", "file"),
    [
        (("a", "a/b"), "a"),
        (("a/b/c/d", "a/b"), "a/b"),
        (("a", "a/"), "a"),
        (("a", "a/b/"), "a"),
        (("a", "a-b", "a/b"), "a"),
    ],
)
def test_a_file_beside_a_directory_of_its_name_is_refused(
    paths: tuple[str, ...], file: str
) -> None:
    with pytest.raises(UnmappableObjectError, match="other objects lie below it") as caught:
        layout_of(*paths)
    assert caught.value.object_path == file


# -- directory markers and the marker of the attempt


def test_an_empty_object_that_ends_in_a_slash_becomes_a_directory() -> None:
    layout = layout_of("a/", "a/b/", "a/b/c")
    assert list(layout.markers) == ["a", "a/b"]
    assert list(layout.files) == ["a/b/c"]
    assert [marker.path for marker in layout.markers.values()] == ["a/", "a/b/"]


def test_the_marker_of_the_prefix_itself_is_left_alone() -> None:
    assert layout_of("audio/render/", prefix="audio/render") == WorkspaceLayout()


@pytest.mark.parametrize("path", ["audio/render/", "audio/render/a/"])
def test_a_marker_with_content_is_refused(path: str) -> None:
    with pytest.raises(UnmappableObjectError, match="it has content"):
        map_objects(Prefix.parse("audio/render"), [entry(path, size=1)])


def test_an_empty_file_is_a_file() -> None:
    layout = map_objects(Prefix(), [entry("empty", size=0)])
    assert list(layout.files) == ["empty"]


@pytest.mark.parametrize("prefix", ["/", "audio/render"])
@pytest.mark.parametrize("name", [MARKER_NAME, f"{MARKER_NAME}/", f"{MARKER_NAME}/x"])
def test_the_attempt_marker_is_never_mapped_at_the_root(prefix: str, name: str) -> None:
    assert is_reserved(name)
    assert layout_of(Prefix.parse(prefix).join(name), prefix=prefix) == WorkspaceLayout()


@pytest.mark.parametrize("name", [f"deeper/{MARKER_NAME}", f"{MARKER_NAME}.bak"])
def test_the_attempt_markers_name_is_free_elsewhere(name: str) -> None:
    assert not is_reserved(name)
    assert list(layout_of(name).files) == [name]


def test_total_bytes_counts_the_blocks_of_files() -> None:
    layout = map_objects(Prefix(), [entry("a", 3), entry("b/c", 4097), entry("d/", 0)])
    assert layout.total_bytes == 3 * 4096


@pytest.mark.parametrize(
    ("size", "blocks"), [(0, 1), (1, 1), (4096, 1), (4097, 2), (8192, 2), (1 << 40, 1 << 28)]
)
def test_a_file_takes_whole_blocks_and_at_least_one(size: int, blocks: int) -> None:
    assert disk_use(size) == blocks * 4096


# -- file systems that fold case


@pytest.mark.parametrize(
    ("paths", "refused"),
    [
        pytest.param(("a", "A"), "a", id="files"),
        pytest.param(("A/x", "a/y"), "a/y", id="directories"),
        pytest.param(("A/x", "a"), "a", id="a file and a directory"),
        pytest.param(("A/", "a/"), "a/", id="markers"),
        pytest.param(("A/", "a/x"), "a/x", id="a marker and a directory"),
        pytest.param(("Ä", "a\u0308"), "Ä", id="composed and decomposed"),
        pytest.param(("ß", "SS"), "ß", id="full case folding"),
        pytest.param(
            ("\u0390", "\u03aa\u0301"), "\u03aa\u0301", id="accents that compose in one case only"
        ),
        pytest.param(
            ("\u1fb7", "\u03b1\u0345\u0342"), "\u1fb7", id="combining marks in another order"
        ),
    ],
)
def test_twins_are_refused_where_the_file_system_folds_case(
    paths: tuple[str, ...], refused: str
) -> None:
    elsewhere = layout_of(*paths)
    assert {*elsewhere.files, *elsewhere.markers} == {path.rstrip("/") for path in paths}
    with pytest.raises(UnmappableObjectError, match="for the same name") as caught:
        layout_of(*paths, folds_case=True)
    assert caught.value.object_path == refused


def test_names_that_merely_share_a_directory_are_no_twins() -> None:
    layout = layout_of("a/b/c", "a/b/d", "a/e", "b/", folds_case=True)
    assert len(layout.files) == 3


def test_parents_nearest_first() -> None:
    assert list(parents_of("a/b/c")) == ["a/b", "a"]
    assert list(parents_of("a")) == []


def test_a_path_that_lakefs_could_not_hold_is_refused() -> None:
    longest = "/".join(["d" * 127] * 8)
    assert len(longest) == MAX_PATH_BYTES - 1
    assert explain_unsafe_path(longest) is None
    assert explain_unsafe_path(longest + "é") == "its name is longer than 1024 bytes"


@pytest.mark.parametrize(
    ("paths", "refused"),
    [
        (("caf\u00e9", "cafe\u0301"), "caf\u00e9"),
        (("a/\u212b/x", "a/\u00c5/y"), "a/\u212b/x"),
        (("cafe\u0301/", "caf\u00e9/x"), "caf\u00e9/x"),
    ],
)
def test_canonically_equal_names_are_refused_where_the_file_system_normalises(
    paths: tuple[str, ...], refused: str
) -> None:
    entries = [ObjectEntry(path=ObjectPath(path), size=0, checksum="") for path in paths]
    map_objects(Prefix.parse("/"), entries)

    with pytest.raises(UnmappableObjectError, match="for the same name") as caught:
        map_objects(Prefix.parse("/"), entries, normalises=True)

    assert caught.value.object_path == refused


def test_case_alone_makes_no_twins_where_the_file_system_only_normalises() -> None:
    entries = [ObjectEntry(path=ObjectPath(path), size=0, checksum="") for path in ("A", "a")]

    assert len(map_objects(Prefix.parse("/"), entries, normalises=True).files) == 2

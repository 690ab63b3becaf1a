from pathlib import Path

import pytest

from perago.adapters.spark.paths import check_path, spark_path
from perago.adapters.spark.roots import LocalRoot, StoreRoot
from perago.domain.errors import TaskTerminalError
from perago.domain.ids import BranchName, CommitId, RepositoryName
from perago.domain.workspace import Prefix
from perago.ports import DirectPlace


@pytest.mark.parametrize(
    "path", ["a", "a/b c", "50%", "a#b+c", "ü/日本", "a:b", "*.csv", "{a,b}/x"]
)
def test_plain_paths_and_patterns_are_taken(path: str) -> None:
    assert check_path(path) == path


def test_a_trailing_slash_is_no_part() -> None:
    assert check_path("clean/flights/") == "clean/flights"


@pytest.mark.parametrize("path", ["/etc/passwd", "file:/x", "s3a://bucket/x", "file:///x"])
def test_absolute_paths_are_refused_and_the_way_out_is_named(path: str) -> None:
    with pytest.raises(
        TaskTerminalError, match=r"it is absolute\n.*uri_in.*workspace\.spark\.read"
    ):
        check_path(path)


@pytest.mark.parametrize(
    "path", ["..", "../x", "a/../../x", "a//b", "./a", "a\x00b", "x" * 256, ""]
)
def test_unsafe_paths_are_refused_by_name(path: str) -> None:
    with pytest.raises(TaskTerminalError, match="is not a path of the workspace: "):
        check_path(path)


def test_the_root_is_a_path_where_it_is_allowed() -> None:
    assert check_path("", root_allowed=True) == ""
    assert spark_path(Path("/w"), "") == "file:/w"


def test_nothing_is_percent_encoded() -> None:
    assert spark_path(Path("/a b"), "50% #1+ü") == "file:/a b/50% #1+ü"


def test_the_root_is_never_a_pattern() -> None:
    assert LocalRoot(Path("/a[1]")).pattern("*.csv") == r"file:/a\[1\]/*.csv"


def test_a_path_that_exists_is_no_pattern(tmp_path: Path) -> None:
    name = r"{x}*?\[1]"
    (tmp_path / name).touch()
    assert LocalRoot(tmp_path).pattern(name) == rf"file:{tmp_path}/\{{x\}}\*\?\\\[1\]"


PLACE = DirectPlace(
    repository=RepositoryName("lake"),
    ref=CommitId("c0ffee"),
    prefix=Prefix.parse("a[1]"),
    staging=BranchName("staging"),
)


def test_a_place_in_the_store_is_named_by_its_ref() -> None:
    root = StoreRoot(PLACE, "c0ffee", lambda _path: False)
    assert root.uri("t/x") == "s3a://lake/c0ffee/a[1]/t/x"
    assert root.uri("") == "s3a://lake/c0ffee/a[1]"
    assert root.pattern("*.csv") == r"s3a://lake/c0ffee/a\[1\]/*.csv"


def test_what_exists_in_the_store_is_no_pattern_and_looked_up_only_if_it_could_be_one() -> None:
    asked: list[str] = []

    def exists(path: str) -> bool:
        asked.append(path)
        return True

    root = StoreRoot(PLACE, "staging", exists)
    assert root.pattern("t[x]") == r"s3a://lake/staging/a\[1\]/t\[x\]"
    assert root.pattern("plain") == r"s3a://lake/staging/a\[1\]/plain"
    assert asked == ["t[x]"]

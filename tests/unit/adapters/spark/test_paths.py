from pathlib import Path

import pytest

from perago.adapters.spark.paths import check_path, spark_path, spark_pattern
from perago.domain.errors import TaskTerminalError


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
    assert spark_pattern(Path("/a[1]"), "*.csv", literal=False) == r"file:/a\[1\]/*.csv"


def test_a_literal_path_is_no_pattern() -> None:
    assert spark_pattern(Path("/a"), r"{x}*?\[1]", literal=True) == r"file:/a/\{x\}\*\?\\\[1\]"

"""`WorkspaceSpec` and the guardrails it holds."""

from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from perago import (
    WorkspaceSpec,
    forbid_glob,
    require_columns,
    require_dir,
    require_file,
    require_glob,
    require_rows,
    task,
)
from perago.domain.access import Access
from perago.domain.errors import DeclarationError
from perago.domain.guardrail import (
    Custom,
    ForbidGlob,
    RequireColumns,
    RequireDir,
    RequireFile,
    RequireGlob,
    RequireRows,
)
from perago.domain.workspace import Prefix


def test_the_prefix_is_normalised_once() -> None:
    assert WorkspaceSpec(prefix="/flights/clean/").prefix == Prefix("flights/clean/")
    assert WorkspaceSpec().prefix == WorkspaceSpec(prefix="/").prefix == Prefix("")


@pytest.mark.parametrize("prefix", ["", "a/../b", "a//b", ".", "a\x00b"])
def test_a_prefix_that_could_escape_is_refused(prefix: str) -> None:
    with pytest.raises(DeclarationError, match="prefix"):
        WorkspaceSpec(prefix=prefix)


def test_every_maker_gives_its_value() -> None:
    spec = WorkspaceSpec(
        prefix="flights",
        pre=[require_file("a.csv"), require_dir("raw"), require_glob("raw/*.csv", min=2, max=5)],
        post=[
            forbid_glob("**/*.tmp"),
            require_columns("clean", ["year", "month"]),
            require_rows("clean", min=10),
        ],
    )
    assert spec.pre == (RequireFile("a.csv"), RequireDir("raw"), RequireGlob("raw/*.csv", 2, 5))
    assert spec.post == (
        ForbidGlob("**/*.tmp"),
        RequireColumns("clean", ("year", "month")),
        RequireRows("clean", 10),
    )


def test_a_callable_becomes_a_check() -> None:
    def no_strays(directory: Path) -> bool:
        return not list(directory.glob("*.tmp"))

    assert WorkspaceSpec(post=[no_strays]).post == (Custom(no_strays),)


def test_what_is_no_check_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"WorkspaceSpec\(pre=...\) holds 'raw/a.csv'"):
        WorkspaceSpec(pre=[cast(Any, "raw/a.csv")])


def test_a_single_column_as_text_is_not_taken_apart() -> None:
    with pytest.raises(DeclarationError) as caught:
        require_columns("a.csv", "year")
    assert caught.value.hint == "write require_columns('a.csv', ['year'])"


def test_access_is_the_workers_choice_unless_said() -> None:
    assert WorkspaceSpec().access is None
    assert WorkspaceSpec(access="direct").access is Access.DIRECT
    assert WorkspaceSpec(access="local").access is Access.LOCAL


def test_another_access_is_refused() -> None:
    with pytest.raises(DeclarationError, match="no way to reach a workspace"):
        WorkspaceSpec(access=cast("Any", "remote"))


def test_a_path_is_never_direct() -> None:
    class Nothing(BaseModel):
        pass

    def body(workspace: Path, _params: Nothing) -> Nothing:
        del workspace
        return Nothing()

    declare = task("t", owner_email="a@b.cc", workspace=WorkspaceSpec(access="direct"))
    with pytest.raises(DeclarationError, match="only Spark goes to the store by itself"):
        declare(body)

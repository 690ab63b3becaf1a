"""Which functions can be bodies, and what is said of the others."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import BaseModel, RootModel, SecretStr

from perago import SparkWorkspace, TaskContext, WorkspaceSpec, task
from perago.authoring import AnyTask, WorkspaceKind
from perago.domain.errors import DeclarationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Params(BaseModel):
    year: int


@dataclass
class Result:
    rows: int


WITH_WORKSPACE = WorkspaceSpec(prefix="flights")


def declare(function: Callable[..., object], workspace: WorkspaceSpec | None = None) -> AnyTask:
    return task("clean", owner_email="data@example.com", workspace=workspace)(function)


def refusal_of(function: Callable[..., object], workspace: WorkspaceSpec | None = None) -> str:
    with pytest.raises(DeclarationError) as caught:
        declare(function, workspace)
    return str(caught.value)


# -- accepted


def test_parameters_are_matched_by_type_in_any_order_and_under_any_name() -> None:
    def clean(about: TaskContext, session: SparkSession, p: Params, here: Path) -> Result: ...

    body = declare(clean, WITH_WORKSPACE).body
    assert body.workspace_kind is WorkspaceKind.PATH
    assert body.wants_spark
    assert body.wants_context
    assert body.params.type is Params
    assert body.result.type is Result


def test_params_alone() -> None:
    def clean(params: Params) -> Result: ...

    declared = declare(clean)
    assert declared.body.workspace_kind is WorkspaceKind.NONE
    assert not declared.needs_spark
    assert not declared.body.wants_context


def test_a_spark_workspace_needs_spark() -> None:
    def clean(workspace: SparkWorkspace, params: Params) -> Result: ...

    declared = declare(clean, WITH_WORKSPACE)
    assert declared.body.workspace_kind is WorkspaceKind.SPARK
    assert declared.needs_spark
    assert not declared.body.wants_spark


def test_annotated_is_looked_through() -> None:
    def clean(workspace: Annotated[Path, "note"], params: Annotated[Params, 1]) -> Result: ...

    assert declare(clean, WITH_WORKSPACE).body.workspace_kind is WorkspaceKind.PATH


def test_types_may_be_local_to_the_defining_function() -> None:
    class Where(BaseModel):
        airport: str

    @dataclass
    class LocalParams:
        where: Where

    @dataclass
    class LocalResult:
        params: LocalParams

    @task("local", owner_email="data@example.com")
    def clean(params: LocalParams) -> LocalResult:
        return LocalResult(params)

    parsed = clean.parse_input({"params": {"where": {"airport": "JFK"}}})
    assert parsed.params == LocalParams(Where(airport="JFK"))


def test_types_may_come_from_a_closure_and_other_names_may_be_bound_later() -> None:
    class LocalResult(BaseModel):
        rows: int

    def make() -> AnyTask:
        @task("closed_over", owner_email="data@example.com")
        def clean(params: Params) -> LocalResult:
            return LocalResult(rows=later)

        return clean

    made = make()
    later = 3
    assert made.body.result.type is LocalResult
    assert made(Params(year=1)) == LocalResult(rows=3)


def test_an_imported_spark_session_is_recognised_by_its_qualified_name() -> None:
    class SparkSession:
        pass

    SparkSession.__qualname__ = "SparkSession"
    SparkSession.__module__ = "pyspark.sql.connect.session"

    def clean(params: Params, spark: SparkSession) -> Result: ...

    clean.__annotations__["spark"] = SparkSession
    assert declare(clean).body.wants_spark


def test_a_spark_session_of_somebody_else_is_not_spark() -> None:
    class SparkSession:
        pass

    def clean(params: Params, spark: SparkSession) -> Result: ...

    clean.__annotations__["spark"] = SparkSession
    assert "parameter 'spark' is a SparkSession" in refusal_of(clean)


def test_a_text_annotation_with_a_module_is_recognised() -> None:
    def clean(params: Params, spark: pyspark.sql.SparkSession) -> Result: ...  # type: ignore[name-defined] # noqa: F821

    assert declare(clean).body.wants_spark


# -- refused


def test_a_refusal_names_the_function_and_its_place() -> None:
    def clean(params: dict[str, Any]) -> Result: ...

    line = clean.__code__.co_firstlineno
    assert f"clean ({__file__}:{line})" in refusal_of(clean)


class Years(RootModel[list[int]]):
    pass


class Opaque:
    pass


@dataclass
class Strange:
    thing: Opaque


@dataclass
class Unfinished:
    thing: NeverDefined  # type: ignore[name-defined] # noqa: F821


class Login(BaseModel):
    user: str
    token: SecretStr | None = None


RIGHT = "def clean(params: Params) -> Result: ..."
RIGHT_BUT_PARAMS = "def clean(params: CleanParams) -> Result: ..."
RIGHT_BUT_RESULT = "def clean(params: Params) -> CleanResult: ..."


@pytest.mark.parametrize("quoted", [False, True], ids=["evaluated", "as text"])
@pytest.mark.parametrize(
    ("source", "problem", "right"),
    [
        ("async def clean(params: Params) -> Result: ...", "`async def`", RIGHT),
        ("def clean(params: Params) -> Result: yield", "a generator", RIGHT),
        ("async def clean(params: Params) -> Result: yield", "a generator", RIGHT),
        ("def clean() -> Result: ...", "it has no params", RIGHT_BUT_PARAMS),
        ("def clean(params: dict) -> Result: ...", "'params' is a dict", RIGHT_BUT_PARAMS),
        ("def clean(params: Any) -> Result: ...", "'params' is a Any", RIGHT_BUT_PARAMS),
        ("def clean(params: Params | None) -> Result: ...", "Params | None", RIGHT_BUT_PARAMS),
        ("def clean(params: Years) -> Result: ...", "a RootModel is not an object", ""),
        ("def clean(params: Strange) -> Result: ...", "schema for <class", ""),
        ("def clean(params: Unfinished) -> Result: ...", "name 'NeverDefined' is not def", ""),
        ("def clean(params: Login) -> Result: ...", "its field 'token' is a secret", ""),
        ("def clean(params: Params) -> Login: ...", "its field 'token' is a secret", ""),
        (
            "def clean(params: Params, more: Result) -> Result: ...",
            "'params' and 'more' are both params; a body takes one model",
            RIGHT,
        ),
        (
            "def clean(params: Params, a: TaskContext, b: TaskContext) -> Result: ...",
            "'a' and 'b' are both the TaskContext",
            "def clean(params: Params, a: TaskContext) -> Result: ...",
        ),
        ("def clean(params) -> Result: ...", "'params' has no type", RIGHT_BUT_PARAMS),
        (
            "def clean(params: Params, c: TaskContext = None) -> Result: ...",
            "parameter 'c' has a default; Perago always passes it",
            "def clean(params: Params, c: TaskContext) -> Result: ...",
        ),
        ("def clean(params: Params, *more: Params) -> Result: ...", "it takes *more", RIGHT),
        ("def clean(params: Params, **more: Params) -> Result: ...", "it takes **more", RIGHT),
        ("def clean(params: Params): ...", "it has no return type", RIGHT_BUT_RESULT),
        ("def clean(params: Params) -> None: ...", "it cannot return None", RIGHT_BUT_RESULT),
        ("def clean(params: Params) -> dict: ...", "it cannot return dict", RIGHT_BUT_RESULT),
        (
            "def clean(workspace: Path, params: Params) -> Result: ...",
            "'workspace' is a workspace, but @task has no workspace=",
            f'add workspace=WorkspaceSpec(prefix="...") to @task, or write it as  {RIGHT}',
        ),
    ],
)
def test_a_wrong_signature_is_refused_with_the_right_one(
    source: str, problem: str, right: str, quoted: bool
) -> None:
    message = refusal_of(define(source, quoted=quoted))
    assert problem in message
    assert right in message


@pytest.mark.parametrize(
    ("source", "problem", "right"),
    [
        ("def clean(params: Missing) -> Result: ...", "'Missing', is unknown", RIGHT_BUT_PARAMS),
        ("def clean(params: Params) -> Missing: ...", "'Missing', is unknown", RIGHT_BUT_RESULT),
        ("def clean(params: Params, spark: Renamed) -> Result: ...", "'Renamed', is", RIGHT),
        (
            "def clean(params: Params, a: SparkSession, b: SparkSession) -> Result: ...",
            "'a' and 'b' are both the SparkSession",
            "def clean(params: Params, a: SparkSession) -> Result: ...",
        ),
        (
            "def clean(params: Params, spark: SparkSession = None) -> Result: ...",
            "parameter 'spark' has a default",
            "def clean(params: Params, spark: SparkSession) -> Result: ...",
        ),
    ],
)
def test_names_that_only_the_type_checker_knows(source: str, problem: str, right: str) -> None:
    message = refusal_of(define(source, quoted=True))
    assert problem in message
    assert right in message


def define(source: str, *, quoted: bool) -> Callable[..., object]:
    """A function from its text, as a module with or without the future import would have it."""
    future = "from __future__ import annotations\n" if quoted else ""
    namespace = dict(globals())
    exec(compile(future + source, "<module>", "exec", dont_inherit=True), namespace)
    made: Callable[..., object] = namespace["clean"]
    return made


def test_a_declared_workspace_needs_a_parameter() -> None:
    def clean(params: Params) -> Result: ...

    message = refusal_of(clean, WITH_WORKSPACE)
    assert "@task has workspace=, but no parameter takes it" in message
    assert "def clean(workspace: Path, params: Params) -> Result: ..." in message


@pytest.mark.parametrize("second", ["Path", "SparkWorkspace"])
def test_two_workspaces_are_refused(second: str) -> None:
    def clean(first: Path, second: Path, params: Params) -> Result: ...

    clean.__annotations__["second"] = second
    message = refusal_of(clean, WITH_WORKSPACE)
    assert "'first' and 'second' are both the workspace" in message


class Callable_:  # noqa: N801 - like a function, and none
    def __call__(self, params: Params) -> Result: ...


@pytest.mark.parametrize(
    "thing",
    [Params, Callable_(), functools.partial(print), len],
    ids=["class", "object", "partial", "builtin"],
)
def test_only_plain_functions_are_bodies(thing: Callable[..., object]) -> None:
    assert "is no plain function" in refusal_of(thing)

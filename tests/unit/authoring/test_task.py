"""`@task`: the declaration, the input, the result, the call."""

# mypy: disable-error-code="empty-body"

import dataclasses
import datetime as dt
import logging
import math
import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    computed_field,
    field_validator,
)
from pydantic import dataclasses as pydantic_dataclasses

from perago import (
    PublishBudget,
    TaskContext,
    TaskControls,
    TimeoutPolicy,
    WorkspaceSpec,
    task,
)
from perago.domain.attempt import Attempt
from perago.domain.errors import DeclarationError, InvalidInputError, InvalidResultError
from perago.domain.ids import BranchName, CommitId, ExecutionId, RepositoryName, TaskId, WorkflowId
from perago.domain.outcome import JsonObject, JsonValue
from perago.domain.workspace import WorkspaceRef

OWNER = "data@example.com"


class Params(BaseModel):
    year: int
    since: dt.date = dt.date(2013, 1, 1)
    carriers: tuple[str, ...] = ()


class Result(BaseModel):
    rows: int = 0
    ratio: float = 0.0
    note: str = ""


@task("clean", owner_email=OWNER, workspace=WorkspaceSpec(prefix="flights"))
def clean(workspace: Path, params: Params) -> Result:
    """Clean the flights
    of one year.

    And more.
    """
    return Result(rows=params.year, note=workspace.name)


@task("count", owner_email=OWNER)
def count(params: Params) -> Result:
    return Result(rows=1)


WORKSPACE: JsonObject = {
    "repository": "lake",
    "branch": "main",
    "ref_type": "commit",
    "ref": "c0ffee",
}
CONTEXT = TaskContext(
    attempt=Attempt(
        workflow_id=WorkflowId("w"), task_id=TaskId("t"), task_name="t", reference_name="t"
    ),
    execution_id=ExecutionId("0" * 32),
    workspace=None,
    logger=logging.getLogger("test"),
    on_progress=lambda message, fraction: None,
    is_cancelled=lambda: False,
)


# -- the declaration


def test_a_task_knows_what_was_declared() -> None:
    assert (clean.name, clean.owner_email) == ("clean", OWNER)
    assert clean.description == "Clean the flights of one year."
    assert clean.writes_workspace
    assert not count.writes_workspace
    assert repr(clean).startswith(f"<task 'clean' at {__file__}:")
    with pytest.raises(dataclasses.FrozenInstanceError):
        clean.name = "other"  # type: ignore[misc]


def test_a_description_of_ones_own_wins() -> None:
    @task("described", owner_email=OWNER, description="Short.")
    def described(params: Params) -> Result:
        """Long."""
        raise NotImplementedError

    assert described.description == "Short."


@pytest.mark.parametrize("name", ["", "9lives", "with space", "a/b", "näme", "-x"])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(DeclarationError, match="is no name"):
        task(name, owner_email=OWNER)


@pytest.mark.parametrize("name", ["clean", "_x", "a.b-c_1"])
def test_a_good_name_is_taken(name: str) -> None:
    task(name, owner_email=OWNER)


@pytest.mark.parametrize("email", ["", "data", "data@", "@example.com", "a b@example.com", "a@b"])
def test_an_owner_needs_an_address(email: str) -> None:
    with pytest.raises(DeclarationError, match="is no e-mail address"):
        task("clean", owner_email=email)


def test_the_bare_decorator_is_explained() -> None:
    def clean_up(params: Params) -> Result: ...

    with pytest.raises(DeclarationError) as caught:
        cast(Any, task)(clean_up, owner_email=OWNER)
    assert 'write @task("clean_up", owner_email=' in str(caught.value)


SHORT_LEASE = TaskControls(timeout=TimeoutPolicy(response_seconds=30))


def test_a_writer_whose_lease_can_never_publish_is_refused() -> None:
    def short(workspace: Path, params: Params) -> Result: ...

    with pytest.raises(DeclarationError, match="no attempt could ever publish"):
        task("short", owner_email=OWNER, workspace=WorkspaceSpec(), controls=SHORT_LEASE)(short)


def test_a_shorter_merge_time_out_or_read_only_makes_a_short_lease_fine() -> None:
    def short(workspace: Path, params: Params) -> Result: ...

    budget = PublishBudget(
        observed_merge_p99_seconds=2,
        safety_factor=2,
        conductor_completion_reserve_seconds=1,
        heartbeat_interval_seconds=5,
        shutdown_grace_seconds=1,
    )
    controls = dataclasses.replace(SHORT_LEASE, publish_budget=budget)
    task("short", owner_email=OWNER, workspace=WorkspaceSpec(), controls=controls)(short)
    task("short", owner_email=OWNER, workspace=WorkspaceSpec(read_only=True), controls=SHORT_LEASE)(
        short
    )


# -- the call


def test_calling_a_task_calls_the_function() -> None:
    assert clean(Path("here"), Params(year=3)) == Result(rows=3, note="here")
    assert count(params=Params(year=3)) == Result(rows=1)


def test_invoke_gives_each_parameter_what_its_type_asks_for() -> None:
    seen: list[object] = []

    @task("mixed", owner_email=OWNER, workspace=WorkspaceSpec())
    def mixed(context: TaskContext, /, params: Params, *, here: Path) -> Result:
        seen.extend([context, params, here])
        return Result()

    params = Params(year=1)
    mixed.invoke(workspace=Path("w"), params=params, spark=None, context=CONTEXT)
    assert seen == [CONTEXT, params, Path("w")]


def test_invoke_hands_over_spark_only_where_it_is_asked_for() -> None:
    session = object()

    @task("sparky", owner_email=OWNER)
    def sparky(params: Params, spark: "SparkSession") -> Result:  # type: ignore[name-defined] # noqa: F821
        return Result(note=str(spark is session))

    made = sparky.invoke(workspace=None, params=Params(year=1), spark=session, context=CONTEXT)
    assert made == Result(note="True")
    with pytest.raises(AssertionError, match="sparky was run without its SPARK"):
        sparky.invoke(workspace=None, params=Params(year=1), spark=None, context=CONTEXT)


# -- the input


def test_an_input_is_parsed_as_json() -> None:
    parsed = clean.parse_input(
        {"workspace": WORKSPACE, "params": {"year": 1, "since": "2014-02-03", "carriers": ["UA"]}}
    )
    assert parsed.workspace == WorkspaceRef(
        repository=RepositoryName("lake"), branch=BranchName("main"), ref=CommitId("c0ffee")
    )
    assert parsed.params == Params(year=1, since=dt.date(2014, 2, 3), carriers=("UA",))


def test_a_task_without_a_workspace_takes_params_alone() -> None:
    assert count.parse_input({"params": {"year": 1}}).workspace is None
    with pytest.raises(InvalidInputError, match="workspace: is not a known key"):
        count.parse_input({"workspace": WORKSPACE, "params": {"year": 1}})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"workspace": None}, "workspace: is not an object"),
        ({"workspace": {}}, "workspace.repository: is missing"),
        ({"workspace": {**WORKSPACE, "repository": 7}}, "workspace.repository: "),
        ({"workspace": {**WORKSPACE, "branch": ""}}, "workspace.branch: "),
        ({"workspace": {**WORKSPACE, "ref_type": "branch"}}, "workspace.ref_type: "),
        ({"workspace": {**WORKSPACE, "ref": ""}}, "workspace.ref: "),
        ({"workspace": {**WORKSPACE, "endpoint": "x"}}, "workspace.endpoint: is not a known field"),
        ({"params": [1]}, "params: is not an object"),
        ({"params": {}}, "params.year: is missing"),
        ({"params": {"year": "soon"}}, "params.year: "),
        ({"params": {"year": 1, "carriers": ["UA", 3]}}, "params.carriers[1]: "),
        ({"params": {"year": 1, "yaer": 2}}, "params.yaer: is not a known field (did you mean 'y"),
        ({"param": {}}, "param: is not a known key (did you mean 'params'?)"),
    ],
)
def test_every_bad_field_is_named(change: JsonObject, named: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        clean.parse_input({"workspace": WORKSPACE, "params": {"year": 1}, **change})
    assert named in caught.value.message
    assert '"ref_type": "commit"' in str(caught.value.hint)
    assert '"params": {"year": integer, ' in str(caught.value.hint)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InvalidInputError) as caught:
        clean.parse_input({"extra": 1, "params": {"year": None, "typo": 1}})
    for named in ("extra: ", "workspace: is missing", "params.typo: ", "params.year: "):
        assert named in caught.value.message


class Talkative(BaseModel):
    model_config = ConfigDict(extra="forbid")

    code: str = ""
    codes: list[str] = []
    pin: int = 0
    kind: Literal["a", "b"] = "a"
    number: int = 0

    @field_validator("code", "codes", "pin")
    @classmethod
    def short(cls, value: object) -> object:
        if len(str(value)) > 3:
            raise ValueError(f"{value} is longer than three characters")
        return value


@task("talk", owner_email=OWNER)
def talk(params: Talkative) -> Result: ...


@pytest.mark.parametrize(
    "params",
    [
        {"code": "s3cr3t-77"},
        {"code": "s3cr3t-77\n", "number": 0},
        {"codes": ["s3cr3t-77", ""]},
        {"pin": 7777},
        {"kind": "s3cr3t-77"},
        {"number": "s3cr3t-77"},
    ],
)
def test_no_value_is_repeated_anywhere(params: JsonObject) -> None:
    with pytest.raises(InvalidInputError) as caught:
        talk.parse_input({"params": params})
    shown = "".join(traceback.format_exception(caught.value))
    assert not re.search("s3cr3t|77", shown.replace(str(Path(__file__).parent), ""))
    assert caught.value.__context__ is None


def test_a_validator_that_quotes_nothing_is_heard() -> None:
    @task("tell", owner_email=OWNER)
    def tell(params: Calendar) -> Result: ...

    with pytest.raises(InvalidInputError, match=r"params\.year: the 1st of all years is 2"):
        tell.parse_input({"params": {"year": 1}})


class Calendar(BaseModel):
    year: int

    @field_validator("year")
    @classmethod
    def late_enough(cls, value: int) -> int:
        if value < 2:
            raise ValueError("the 1st of all years is 2")
        return value


class Aliased(BaseModel):
    first: int = Field(1, alias="eins")
    second: int = Field(2, validation_alias=AliasChoices("zwei", AliasPath("deep", "two")))


class ByName(Aliased):
    model_config = ConfigDict(populate_by_name=True)


class Loose(BaseModel):
    model_config = ConfigDict(extra="ignore")


@pydantic_dataclasses.dataclass
class Checked:
    rows: Annotated[int, Field(ge=0)] = 0


@pytest.mark.parametrize(
    ("model", "params"),
    [
        (Aliased, {"eins": 1}),
        (Aliased, {"zwei": 1}),
        (Aliased, {"deep": {"two": 1}}),
        (ByName, {"first": 1}),
        (Loose, {"anything": 1}),
        (Checked, {"rows": 1}),
    ],
)
def test_a_model_says_which_keys_it_knows(model: type, params: JsonObject) -> None:
    _declare_with(model).parse_input({"params": params})


@pytest.mark.parametrize(
    ("model", "params"), [(Aliased, {"first": 1}), (Checked, {"row": 1}), (Params, {"Year": 1})]
)
def test_a_key_that_a_model_would_ignore_is_refused(model: type, params: JsonObject) -> None:
    with pytest.raises(InvalidInputError, match="is not a known field"):
        _declare_with(model).parse_input({"params": params})


def _declare_with(model: type) -> Any:
    def body(params: object) -> Result: ...

    body.__annotations__["params"] = model
    return task("with_model", owner_email=OWNER)(body)


# -- the result


@dataclass
class Plain:
    rows: Annotated[int, Field(ge=0)]
    inner: Checked | None = None
    made: str = dataclasses.field(default="x", init=False)


@task("plain", owner_email=OWNER)
def plain(params: Params) -> Plain: ...


def test_a_result_is_json() -> None:
    assert clean.dump_result(Result(rows=3, note="ß"), 1000) == {
        "rows": 3,
        "ratio": 0.0,
        "note": "ß",
    }
    assert plain.dump_result(Plain(3, Checked(2)), 1000) == {
        "rows": 3,
        "inner": {"rows": 2},
        "made": "x",
    }


def test_a_result_goes_out_under_its_aliases_and_with_computed_fields() -> None:
    class Out(BaseModel):
        rows: int = Field(serialization_alias="rowCount")

        @computed_field  # type: ignore[prop-decorator]
        @property
        def twice(self) -> int:
            return self.rows * 2

    @task("out", owner_email=OWNER)
    def out(params: Params) -> Out: ...

    assert out.dump_result(Out(rows=2), 1000) == {"rowCount": 2, "twice": 4}


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Result(ratio=math.nan), "result.ratio is nan"),
        (Result(ratio=-math.inf), "result.ratio is -inf"),
        (Result(note="\ud800"), "result.note is a text that is not valid Unicode"),
        (Result.model_construct(rows="many"), "a value that its model does not allow"),
    ],
)
def test_a_result_that_is_not_json_is_refused(value: Result, named: str) -> None:
    with pytest.raises(InvalidResultError) as caught:
        clean.dump_result(value, 1000)
    assert named in caught.value.message
    assert "many" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Plain(-1), "result.rows: "),
        (Plain(cast(int, None)), "result.rows: "),
        # A number as text would be a number after a look at it, but it is not one now.
        (Plain(cast(int, "3")), "a value that its model does not allow"),
    ],
)
def test_a_plain_dataclass_is_checked_too(value: Plain, named: str) -> None:
    with pytest.raises(InvalidResultError) as caught:
        plain.dump_result(value, 1000)
    assert named in caught.value.message


@pytest.mark.parametrize("value", [None, {"rows": 1}, Params(year=1)])
def test_a_result_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(InvalidResultError, match=f"returned {type(value).__name__}, not Result"):
        clean.dump_result(value, 1000)


def test_nested_values_are_looked_into() -> None:
    class Nested(BaseModel):
        values: dict[str, list[float]]

    @task("nested", owner_email=OWNER)
    def nested(params: Params) -> Nested: ...

    with pytest.raises(InvalidResultError, match=r"result\.values\.a\[1\] is nan"):
        nested.dump_result(Nested(values={"a": [1.0, math.nan]}), 1000)


class Tree(BaseModel):
    value: Any


@task("grow", owner_email=OWNER)
def grow(params: Params) -> Tree: ...


def nest(levels: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (10**1000, "result.value is a number of more than 1,000 digits"),
        (-(10**2000), "result.value is a number of more than 1,000 digits"),
        (10**5000, "result.value is a number of more than 1,000 digits"),
        (nest(199), "nested deeper than 200 levels"),
        (nest(900), "cannot be JSON"),
        ({"x" * 50_001: 1}, "a name of more than 50,000 characters"),
        ({"\ud800": 1}, "cannot be JSON"),
    ],
    ids=["1001 digits", "2001 digits", "5001 digits", "201 levels", "deep", "long name", "half"],
)
def test_what_the_orchestrator_would_refuse_is_refused_before_staging(
    value: JsonValue, named: str
) -> None:
    with pytest.raises(InvalidResultError) as caught:
        grow.dump_result(Tree(value=value), 10**9)
    assert named in caught.value.message


@pytest.mark.parametrize(
    "value", [10**1000 - 1, nest(198), {"x" * 50_000: 1}], ids=["1000 digits", "200 levels", "name"]
)
def test_what_is_just_within_its_limits_is_taken(value: JsonValue) -> None:
    assert grow.dump_result(Tree(value=value), 10**9) == {"value": value}


def test_the_size_limit_counts_bytes() -> None:
    result: dict[str, JsonValue] = {"rows": 0, "ratio": 0.0, "note": "ßß"}
    size = len('{"rows": 0, "ratio": 0.0, "note": "ßß"}'.encode())
    assert clean.dump_result(Result(note="ßß"), size) == result
    with pytest.raises(InvalidResultError, match=f"is {size} bytes of JSON; {size - 1} can be"):
        clean.dump_result(Result(note="ßß"), size - 1)

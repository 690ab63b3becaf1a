"""Pipelines: how steps are wired, and which are refused."""

# mypy: disable-error-code="empty-body"

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel, Field

from perago import Pipeline, WorkspaceSpec, parallel, pipeline_param, result_of, step, task
from perago.authoring import current_workspace, http, human, raw, sub_workflow, wait
from perago.authoring.steps import StepLike
from perago.domain.errors import InvalidInputError, PipelineError
from perago.domain.outcome import JsonObject, JsonValue

OWNER = "data@example.com"
FLIGHTS = WorkspaceSpec(prefix="flights")
READ_ONLY = WorkspaceSpec(prefix="flights", read_only=True)


class Year(BaseModel):
    year: int = 2013


class Totals(BaseModel):
    rows: int
    late: int = 0


class Report(BaseModel):
    rows: int = 0
    totals: Totals
    extra: dict[str, int] = {}


class Limit(BaseModel):
    rows: int
    day: dt.date = dt.date(2013, 1, 1)
    tags: list[str] = []
    more: Any = None


class Nothing(BaseModel):
    pass


@task("ingest", owner_email=OWNER, workspace=FLIGHTS)
def ingest(workspace: Path, params: Year) -> Report: ...


@task("clean", owner_email="other@example.com", workspace=FLIGHTS)
def clean(workspace: Path, params: Nothing) -> Report: ...


@task("check", owner_email=OWNER, workspace=READ_ONLY)
def check(workspace: Path, params: Nothing) -> Totals: ...


@task("limit", owner_email=OWNER, workspace=READ_ONLY)
def limit(workspace: Path, params: Limit) -> Totals: ...


@task("notify.all", owner_email=OWNER)
def notify(params: Nothing) -> Nothing: ...


def wired(*steps: StepLike, params: type | None = None) -> dict[str, dict[str, Any]]:
    """Every workflow task by its reference name, branches included."""
    definition = Pipeline("flights", 1, steps, params=params, owner_email=OWNER)
    found: dict[str, dict[str, Any]] = {}

    def gather(tasks: Sequence[Any]) -> None:
        for one in tasks:
            found[one["taskReferenceName"]] = one
            for branch in one.get("forkTasks", []):
                gather(branch)

    gather(cast(list[Any], definition.workflow_definition()["tasks"]))
    return found


def workspace_of(found: dict[str, dict[str, Any]], reference: str) -> str:
    return str(found[reference]["inputParameters"]["workspace"])


def refusal_of(*steps: StepLike, params: type | None = None) -> str:
    with pytest.raises(PipelineError) as caught:
        Pipeline("flights", 1, steps, params=params, owner_email=OWNER)
    return str(caught.value)


# -- the workspace


def test_the_workspace_comes_from_the_last_writing_step() -> None:
    found = wired(check, ingest, step(check, "again"), notify, clean, step(check, "last"))
    assert workspace_of(found, "check") == "${workflow.input.workspace}"
    assert workspace_of(found, "ingest") == "${workflow.input.workspace}"
    assert workspace_of(found, "again") == "${ingest.output.workspace}"
    assert workspace_of(found, "clean") == "${ingest.output.workspace}"
    assert workspace_of(found, "last") == "${clean.output.workspace}"
    assert found["notify_all"]["inputParameters"] == {"params": {}}


def test_a_raw_writer_becomes_the_source() -> None:
    found = wired(ingest, human("repair", writes_workspace=True), check)
    assert workspace_of(found, "repair") == "${ingest.output.workspace}"
    assert workspace_of(found, "check") == "${repair.output.workspace}"


def test_a_raw_step_that_does_not_write_is_passed_over() -> None:
    found = wired(ingest, human("approve", writes_workspace=False), check)
    assert found["approve"]["inputParameters"] == {}
    assert workspace_of(found, "check") == "${ingest.output.workspace}"


def test_the_pipeline_outputs_the_final_workspace_and_every_result() -> None:
    pipeline = Pipeline("flights", 3, [ingest, clean, check, human("ok", writes_workspace=False)])
    assert pipeline.workflow_definition()["outputParameters"] == {
        "workspace": "${clean.output.workspace}",
        "results": {
            "ingest": "${ingest.output.result}",
            "clean": "${clean.output.result}",
            "check": "${check.output.result}",
        },
    }


def test_a_pipeline_that_only_reads_outputs_its_input_workspace() -> None:
    definition = Pipeline("flights", 1, [check]).workflow_definition()
    output = definition["outputParameters"]
    assert isinstance(output, dict)
    assert output["workspace"] == "${workflow.input.workspace}"
    assert definition["restartable"] is True


def test_a_pipeline_without_a_workspace_asks_for_none() -> None:
    pipeline = Pipeline("note", 1, [notify])
    definition = pipeline.workflow_definition()
    assert not pipeline.needs_workspace
    assert definition["inputParameters"] == ["params"]
    assert definition["outputParameters"] == {
        "results": {"notify_all": "${notify_all.output.result}"}
    }


@pytest.mark.parametrize(
    "asking", [{"at": current_workspace()}, {"at": ["x ${workflow.input.workspace.ref}"]}]
)
def test_a_raw_input_alone_can_ask_for_a_workspace(asking: dict[str, object]) -> None:
    only = [human("look", writes_workspace=False, input=asking)]
    assert Pipeline("look", 1, only, owner_email=OWNER).needs_workspace


# -- params


def test_params_of_the_same_name_are_wired_and_the_rest_keeps_its_defaults() -> None:
    class Both(BaseModel):
        year: int
        rows: int = 3

    found = wired(ingest, limit, params=Both)
    assert found["ingest"]["inputParameters"]["params"] == {"year": "${workflow.input.params.year}"}
    assert found["limit"]["inputParameters"]["params"] == {"rows": "${workflow.input.params.rows}"}


def test_without_pipeline_params_defaults_are_left_to_the_task() -> None:
    assert wired(ingest)["ingest"]["inputParameters"]["params"] == {}


def test_explicit_params_win() -> None:
    found = wired(step(ingest, params={"year": 2014}), params=Year)
    assert found["ingest"]["inputParameters"]["params"] == {"year": 2014}


def test_params_go_by_their_aliases() -> None:
    class Aliased(BaseModel):
        first_year: int = Field(alias="firstYear")

    @task("aliased", owner_email=OWNER)
    def aliased(params: Aliased) -> Nothing: ...

    found = wired(aliased, params=Aliased)
    assert found["aliased"]["inputParameters"]["params"] == {
        "firstYear": "${workflow.input.params.firstYear}"
    }


def test_a_dataclass_can_be_the_params() -> None:
    @dataclass
    class Plain:
        rows: int

    found = wired(limit, params=Plain)
    assert found["limit"]["inputParameters"]["params"] == {"rows": "${workflow.input.params.rows}"}


class Colour(Enum):
    RED = "red"


def test_literals_become_json() -> None:
    literals = {"rows": 3, "day": dt.date(2014, 5, 6), "tags": ("a", Colour.RED)}
    found = wired(step(limit, params=literals))
    assert found["limit"]["inputParameters"]["params"] == {
        "rows": 3,
        "day": "2014-05-06",
        "tags": ["a", "red"],
    }


def test_expressions_are_rendered_where_they_stand() -> None:
    found = wired(
        ingest,
        human("ask", writes_workspace=False),
        step(
            limit,
            params={
                "rows": result_of("ingest", "totals.rows"),
                "day": pipeline_param("day"),
                "tags": ["fixed", result_of("ask", "answer.tag"), result_of("ingest", "extra.any")],
                "more": {"a": result_of("ingest", "rows"), "b": [None, True, 1.5]},
            },
        ),
        params=Limit,
    )
    assert found["limit"]["inputParameters"]["params"] == {
        "rows": "${ingest.output.result.totals.rows}",
        "day": "${workflow.input.params.day}",
        "tags": ["fixed", "${ask.output.answer.tag}", "${ingest.output.result.extra.any}"],
        "more": {"a": "${ingest.output.result.rows}", "b": [None, True, 1.5]},
    }


def test_a_whole_result_can_be_passed() -> None:
    found = wired(ingest, human("look", writes_workspace=False, input={"r": result_of("ingest")}))
    assert found["look"]["inputParameters"] == {"r": "${ingest.output.result}"}


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([limit], "nothing gives task 'limit' its required params 'rows'"),
        ([step(limit, params={"row": 3})], "no param 'row' (did you mean 'rows'?)"),
        ([step(limit, params={"rows": "many"})], "params.rows: input should be a valid integer"),
        ([step(limit, params={"rows": 1, "tags": [1]})], "params.tags[0]: "),
        ([step(limit, params={"rows": float("nan")})], "nan is no JSON value"),
        ([step(limit, params={"rows": object()})], "is no JSON value"),
        ([step(limit, params={"rows": 1, "tags": {1: 2}})], "the key 1 is no text"),
        ([step(limit, params={"rows": 1, "tags": ["${x}"]})], "holds '${'"),
        ([step(limit, params={"rows": pipeline_param("rows")})], "the pipeline has no params"),
        ([step(limit, params={"rows": result_of("ingest")})], "there is no step 'ingest'"),
        ([step(limit, params={"rows": result_of("limit", "rows")})], "'limit' is not over when it"),
        (
            [step(limit, params={"rows": result_of("ingest", "rows")}), ingest],
            "step 'limit': 'ingest' is not over when it starts",
        ),
        (
            [ingest, step(limit, params={"rows": result_of("ingets", "rows")})],
            "no step 'ingets' (did you mean 'ingest'?)",
        ),
        (
            [ingest, step(limit, params={"rows": result_of("ingest", "row")})],
            "the result of 'ingest' (Report) has no field 'row' (did you mean 'rows'?)",
        ),
        (
            [ingest, step(limit, params={"rows": result_of("ingest", "totals.lates")})],
            "has no field 'lates' (did you mean 'late'?)",
        ),
    ],
)
def test_params_that_cannot_be_are_refused(steps: list[StepLike], problem: str) -> None:
    assert problem in refusal_of(*steps)


def test_an_unknown_pipeline_param_is_refused() -> None:
    message = refusal_of(step(ingest, params={"year": pipeline_param("yaer")}), params=Year)
    assert "(Year) have no field 'yaer' (did you mean 'year'?)" in message


@pytest.mark.parametrize("path", ["", "a..b", ".a", "a b", "a[0]", "${x}"])
def test_a_path_is_names_with_dots(path: str) -> None:
    with pytest.raises(PipelineError, match="is no path to a field"):
        pipeline_param(path)


def test_a_refusal_names_the_pipeline_and_the_step() -> None:
    assert "pipeline 'flights': step 'limit': " in refusal_of(limit)


# -- parallel


def test_parallel_is_a_fork_and_a_join_on_the_ends_of_the_branches() -> None:
    found = wired(
        ingest,
        parallel(check, [step(check, "b1"), notify], human("ask", writes_workspace=False)),
        clean,
    )
    assert found["fork_1"]["type"] == "FORK_JOIN"
    assert [[s["taskReferenceName"] for s in b] for b in found["fork_1"]["forkTasks"]] == [
        ["check"],
        ["b1", "notify_all"],
        ["ask"],
    ]
    assert found["join_1"]["joinOn"] == ["check", "notify_all", "ask"]
    for reference in ("check", "b1", "clean"):
        assert workspace_of(found, reference) == "${ingest.output.workspace}"


def test_forks_may_nest_and_keep_clear_of_other_names() -> None:
    inner = parallel(step(check, "b"), step(check, "fork_1"))
    found = wired(parallel(step(check, "a"), [notify, inner]))
    assert found["join_2"]["joinOn"] == ["a", "join_3"]
    assert found["join_3"]["joinOn"] == ["b", "fork_1"]


def test_a_branch_sees_what_was_before_and_its_own_steps() -> None:
    found = wired(
        ingest,
        parallel(
            [check, step(limit, "own", {"rows": result_of("check", "rows")})],
            step(limit, "before", {"rows": result_of("ingest", "rows")}),
        ),
        step(limit, "after", {"rows": result_of("own", "rows")}),
    )
    assert found["own"]["inputParameters"]["params"] == {"rows": "${check.output.result.rows}"}
    assert found["after"]["inputParameters"]["params"] == {"rows": "${own.output.result.rows}"}


@pytest.mark.parametrize("order", [1, -1])
def test_a_branch_does_not_see_its_siblings(order: int) -> None:
    branches: list[StepLike] = [check, step(limit, params={"rows": result_of("check", "rows")})]
    message = refusal_of(parallel(*branches[::order]))
    assert "'check' runs beside it, in another branch" in message


def test_a_nested_branch_does_not_see_its_parents_siblings() -> None:
    nested = parallel(notify, step(limit, params={"rows": result_of("check", "rows")}))
    assert "'check' runs beside it" in refusal_of(parallel(check, [nested]))


@pytest.mark.parametrize(
    ("branches", "writer"),
    [
        ([ingest, check], "ingest"),
        ([check, [notify, step(ingest, "deep")]], "deep"),
        ([check, human("edit", writes_workspace=True)], "edit"),
    ],
)
def test_a_writer_in_parallel_is_refused_where_it_is_written(
    branches: list[StepLike], writer: str
) -> None:
    with pytest.raises(PipelineError) as caught:
        parallel(*branches)
    message = str(caught.value)
    assert f"step {writer!r} writes the workspace and stands inside parallel" in message
    assert "two writers from one commit cannot both publish" in message
    assert "read_only=True" in message


@pytest.mark.parametrize("branches", [[], [check]])
def test_parallel_needs_branches(branches: list[StepLike]) -> None:
    with pytest.raises(PipelineError, match="at least two branches"):
        parallel(*branches)


def test_a_branch_needs_steps() -> None:
    with pytest.raises(PipelineError, match="a branch without steps"):
        parallel(check, [])


# -- the pipeline itself


def test_tasks_are_the_distinct_tasks_in_order() -> None:
    pipeline = Pipeline(
        "flights",
        1,
        [check, ingest, parallel(step(check, "b"), notify), human("h", writes_workspace=False)],
    )
    assert pipeline.tasks == [check, ingest, notify]


def test_the_first_task_gives_the_owner() -> None:
    assert Pipeline("flights", 1, [clean, ingest]).owner_email == "other@example.com"
    assert Pipeline("flights", 1, [clean], owner_email=OWNER).owner_email == OWNER


@task("ingest", owner_email=OWNER)
def impostor(params: Nothing) -> Nothing: ...


def plain_function(params: Nothing) -> Nothing: ...


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Pipeline("9", 1, [check]), "'9' is no name"),
        (lambda: Pipeline("p", 0, [check]), "its version is 0"),
        (lambda: Pipeline("p", True, [check]), "its version is True"),
        (lambda: Pipeline("p", 1, []), "has no steps"),
        (lambda: Pipeline("p", 1, [check], owner_email="me"), "no e-mail address"),
        (lambda: Pipeline("p", 1, [wait("w", duration="1s")]), "has no owner"),
        (lambda: Pipeline("p", 1, [check], params=dict), "params=dict is refused"),
        (lambda: Pipeline("p", 1, [check], params=cast(Any, 3)), "params=3 is refused"),
        (lambda: Pipeline("p", 1, [check, check]), "two steps have the reference name 'check'"),
        (lambda: Pipeline("p", 1, [step(check, "a.b")]), "'a.b' cannot be the reference name"),
        (lambda: Pipeline("p", 1, [step(check, "workflow")]), "'workflow' cannot be"),
        (lambda: Pipeline("p", 1, [ingest, step(impostor, "i")]), "two tasks are named 'ingest'"),
        (lambda: Pipeline("p", 1, [cast(Any, plain_function)]), "plain_function is a plain func"),
        (lambda: Pipeline("p", 1, [cast(Any, "check")]), "'check' is no step"),
    ],
)
def test_a_pipeline_that_cannot_be_is_refused(make: Callable[[], object], problem: str) -> None:
    with pytest.raises(PipelineError) as caught:
        make()
    assert problem in str(caught.value)


def test_params_are_validated_with_their_defaults() -> None:
    pipeline = Pipeline("flights", 1, [limit], params=Limit)
    assert pipeline.validate_params({"rows": "4"}) == {
        "rows": 4,
        "day": "2013-01-01",
        "tags": [],
        "more": None,
    }


@pytest.mark.parametrize(
    ("params", "raw_params", "named"),
    [
        (Year, {"year": "soon"}, "params.year: "),
        (Year, {"yaer": 1}, "params.yaer: is not a known field (did you mean 'year'?)"),
        (None, {"year": 1}, "params.year: is not a known field"),
    ],
)
def test_wrong_params_are_refused_by_name(
    params: type | None, raw_params: JsonObject, named: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Pipeline("flights", 1, [ingest], params=params).validate_params(raw_params)
    assert named in caught.value.message


def test_a_task_alone_is_a_pipeline_with_its_params() -> None:
    pipeline = Pipeline.of_task(limit)
    assert repr(pipeline) == "<pipeline 'limit' version 1>"
    assert pipeline.tasks == [limit]
    assert pipeline.validate_params({"rows": 1})["rows"] == 1
    inputs = cast(list[JsonObject], pipeline.workflow_definition()["tasks"])[0]["inputParameters"]
    assert inputs == {
        "workspace": "${workflow.input.workspace}",
        "params": {
            name: f"${{workflow.input.params.{name}}}" for name in ("rows", "day", "tags", "more")
        },
    }


# -- raw tasks


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (
            human("ask", writes_workspace=False, input={"q": "?"}),
            {"name": "ask", "type": "HUMAN", "inputParameters": {"q": "?"}},
        ),
        (
            wait("w", duration="2 hours 30 minutes"),
            {"name": "w", "type": "WAIT", "inputParameters": {"duration": "2 hours 30 minutes"}},
        ),
        (
            wait("w", duration=dt.timedelta(minutes=2)),
            {"name": "w", "type": "WAIT", "inputParameters": {"duration": "120s"}},
        ),
        (
            wait("w", until="2030-01-31 09:00 GMT+01:00"),
            {
                "name": "w",
                "type": "WAIT",
                "inputParameters": {"until": "2030-01-31 09:00 GMT+01:00"},
            },
        ),
        (
            http("h", request={"uri": "https://example.com/${workflow.input.params.id}"}),
            {
                "name": "h",
                "type": "HTTP",
                "inputParameters": {
                    "http_request": {"uri": "https://example.com/${workflow.input.params.id}"}
                },
            },
        ),
        (
            sub_workflow("s", name="other", version=2, writes_workspace=True, input={"params": {}}),
            {
                "name": "other",
                "type": "SUB_WORKFLOW",
                "subWorkflowParam": {"name": "other", "version": 2},
                "inputParameters": {"workspace": "${workflow.input.workspace}", "params": {}},
            },
        ),
        (
            raw(
                "ts",
                type="SIMPLE",
                name="ts_worker",
                writes_workspace=False,
                input={"w": current_workspace(), "cost": "$${5}"},
                fields={"optional": True},
            ),
            {
                "name": "ts_worker",
                "type": "SIMPLE",
                "inputParameters": {"w": "${workflow.input.workspace}", "cost": "$${5}"},
                "optional": True,
            },
        ),
    ],
)
def test_raw_tasks_compile_to_what_conductor_takes(
    made: StepLike, expected: dict[str, JsonValue]
) -> None:
    (compiled,) = wired(made).values()
    reference = compiled.pop("taskReferenceName")
    assert reference
    assert compiled == expected


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: wait("w"), "needs either duration= or until="),
        (lambda: wait("w", duration="1s", until="2030-01-01"), "needs either"),
        (lambda: wait("w", duration="soon"), "'soon' is no duration"),
        (lambda: wait("w", duration=""), "'' is no duration"),
        (lambda: wait("w", duration="5s 3m"), "'5s 3m' is no duration"),
        (lambda: wait("w", until="tomorrow"), "'tomorrow' is no date"),
        (
            lambda: raw("r", type="SWITCH", name="r", writes_workspace=False),
            "is a SWITCH, which holds other tasks",
        ),
        (
            lambda: raw("r", type="HTTP", name="r", writes_workspace=False, fields={"type": "X"}),
            "'type' cannot be given in fields=",
        ),
        (
            lambda: human("h", writes_workspace=True, input={"workspace": {}}),
            "gives `workspace` in its input",
        ),
    ],
)
def test_a_raw_task_that_cannot_be_is_refused(make: Callable[[], object], problem: str) -> None:
    with pytest.raises(PipelineError) as caught:
        make()
    assert problem in str(caught.value)


@pytest.mark.parametrize("text", ["${nobody.output.x}", "see ${nobody['output']}"])
def test_texts_of_raw_tasks_may_not_refer_to_nobody(text: str) -> None:
    message = refusal_of(human("ask", writes_workspace=False, input={"q": text}))
    assert "there is no step 'nobody'" in message

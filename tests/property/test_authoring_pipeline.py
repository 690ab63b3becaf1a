"""Laws of wiring, on pipelines of any shape."""

# mypy: disable-error-code="empty-body"

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from perago import Pipeline, WorkspaceSpec, parallel, step, task
from perago.authoring import AnyTask, human, wait
from perago.authoring.raw_tasks import RawTask
from perago.authoring.steps import Element, Parallel, Step, walk
from perago.domain.errors import PipelineError
from perago.domain.outcome import JsonObject, JsonValue

OWNER = "data@example.com"
INPUT = "${workflow.input.workspace}"
KNOWN_TYPES = {"SIMPLE", "FORK_JOIN", "JOIN", "HUMAN", "WAIT"}


class Params(BaseModel):
    year: int


class Result(BaseModel):
    rows: int = 0


@task("writer", owner_email=OWNER, workspace=WorkspaceSpec(prefix="a"))
def writer(workspace: Path, params: Params) -> Result: ...


@task("reader", owner_email=OWNER, workspace=WorkspaceSpec(prefix="a", read_only=True))
def reader(workspace: Path, params: Params) -> Result: ...


@task("free", owner_email=OWNER)
def free(params: Params) -> Result: ...


TASKS: dict[str, AnyTask] = {"writer": writer, "reader": reader, "free": free}


@dataclass(frozen=True)
class Fork:
    branches: tuple[tuple["Shape", ...], ...]


Shape = str | Fork

HARMLESS = ["reader", "free", "ask", "pause"]
SINGLE = [*HARMLESS, "writer", "edit"]


def forks_of(shapes: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    branch = st.lists(shapes, min_size=1, max_size=3).map(tuple)
    return st.lists(branch, min_size=2, max_size=3).map(lambda made: Fork(tuple(made)))


def shapes(single: Sequence[str]) -> st.SearchStrategy[Shape]:
    return st.recursive(st.sampled_from(single), forks_of, max_leaves=6)


def build(shape: Shape, count: Iterator[int]) -> Element:
    if isinstance(shape, Fork):
        return parallel(*([build(one, count) for one in branch] for branch in shape.branches))
    reference = f"s{next(count)}"
    match shape:
        case "ask":
            return human(reference, writes_workspace=False)
        case "edit":
            return human(reference, writes_workspace=True)
        case "pause":
            return wait(reference, duration="1s")
        case _:
            return step(TASKS[shape], reference)


serial_or_harmless_forks = st.lists(
    st.one_of(st.sampled_from(SINGLE), shapes(HARMLESS)), min_size=1, max_size=8
)


def compiled(elements: Sequence[Element]) -> JsonObject:
    pipeline = Pipeline("p", 1, elements, params=Params, owner_email=OWNER)
    return pipeline.workflow_definition()


def flat(tasks: JsonValue) -> Iterator[dict[str, JsonValue]]:
    for one in cast(list[dict[str, JsonValue]], tasks):
        yield one
        for branch in cast(list[JsonValue], one.get("forkTasks", [])):
            yield from flat(branch)


def expected_workspaces(elements: Sequence[Element]) -> tuple[dict[str, str], str]:
    """An oracle that knows nothing of wiring: walk in order and remember the last writer."""
    current, found = INPUT, {}
    for element in walk(elements):
        found[element.reference] = current
        if element.writes_workspace:
            current = f"${{{element.reference}.output.workspace}}"
    return found, current


@given(serial_or_harmless_forks)
def test_the_workspace_always_comes_from_the_last_writer(made: list[Shape]) -> None:
    count = iter(range(1000))
    elements = [build(shape, count) for shape in made]
    definition = compiled(elements)
    expected, final = expected_workspaces(elements)
    takers = {
        one.reference
        for one in walk(elements)
        if (isinstance(one, Step) and one.task.workspace is not None) or one.writes_workspace
    }
    wired = {
        cast(str, one["taskReferenceName"]): inputs["workspace"]
        for one in flat(definition["tasks"])
        if "workspace" in (inputs := cast(JsonObject, one["inputParameters"]))
    }
    assert wired == {reference: expected[reference] for reference in takers}
    output = cast(JsonObject, definition["outputParameters"])
    assert output.get("workspace") == (final if takers else None)


@given(serial_or_harmless_forks)
def test_a_definition_is_json_of_known_types_whose_references_are_over(made: list[Shape]) -> None:
    count = iter(range(1000))
    definition = compiled([build(shape, count) for shape in made])
    assert json.loads(json.dumps(definition, allow_nan=False)) == definition
    references = [one["taskReferenceName"] for one in flat(definition["tasks"])]
    assert len(set(references)) == len(references)
    assert {one["type"] for one in flat(definition["tasks"])} <= KNOWN_TYPES
    assert_references_are_over(definition["tasks"], set())


def assert_references_are_over(tasks: JsonValue, over: set[str]) -> set[str]:
    """Every `${…}` names the workflow or a step that comes before it on the same path."""
    for one in cast(list[dict[str, JsonValue]], tasks):
        used = set(re.findall(r"\$\{([^.}]+)", json.dumps(one["inputParameters"])))
        assert used <= over | {"workflow"}
        inside: set[str] = set()
        for branch in cast(list[JsonValue], one.get("forkTasks", [])):
            inside |= assert_references_are_over(branch, set(over))
        if one["type"] == "JOIN":
            assert set(cast(list[str], one["joinOn"])) <= over
        over |= inside | {cast(str, one["taskReferenceName"])}
    return over


@given(shapes(SINGLE).filter(lambda shape: isinstance(shape, Fork)))
def test_two_writers_never_stand_side_by_side(shape: Shape) -> None:
    if any(name in ("writer", "edit") for name in names(shape)):
        with pytest.raises(PipelineError, match="writes the workspace and stands inside parallel"):
            build(shape, iter(range(1000)))
    else:
        built = build(shape, iter(range(1000)))
        assert isinstance(built, Parallel)
        assert not any(one.writes_workspace for one in walk([built]))


def names(shape: Shape) -> Iterator[str]:
    if isinstance(shape, str):
        yield shape
    else:
        for branch in shape.branches:
            for one in branch:
                yield from names(one)


@given(serial_or_harmless_forks)
def test_tasks_and_steps_survive_compilation(made: list[Shape]) -> None:
    count = iter(range(1000))
    elements = [build(shape, count) for shape in made]
    pipeline = Pipeline("p", 1, elements, params=Params, owner_email=OWNER)
    used = [one.task for one in walk(elements) if isinstance(one, Step)]
    assert pipeline.tasks == list(dict.fromkeys(used))
    raw = [one for one in walk(elements) if isinstance(one, RawTask)]
    simple = [
        one for one in flat(pipeline.workflow_definition()["tasks"]) if one["type"] == "SIMPLE"
    ]
    assert len(simple) + len(raw) == len(list(walk(elements)))

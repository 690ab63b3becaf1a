"""The input and the output of a task, between JSON and the author's models.

Invariant: an input is taken whole or refused whole, and a result that is accepted here can be
reported: it is JSON, it fits its model, and it fits the size limit.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from perago.authoring.models import PayloadModel, is_unchecked
from perago.authoring.schemas import DIALECT, describe_object
from perago.authoring.wording import describe_validation, suggest
from perago.domain.errors import InvalidInputError, InvalidResultError
from perago.domain.ids import BranchName, CommitId, RepositoryName
from perago.domain.json_limits import explain_unusable_json
from perago.domain.outcome import JsonObject, JsonValue
from perago.domain.workspace import WorkspaceRef

NonEmpty = Annotated[str, Field(min_length=1)]


class Workspace(BaseModel):
    """The commit that a task reads, and the branch that it may advance."""

    model_config = ConfigDict(extra="forbid", strict=True)

    repository: NonEmpty
    branch: NonEmpty
    ref_type: Literal["commit"]
    ref: NonEmpty


WORKSPACE = PayloadModel.of(Workspace)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInput:
    """A validated input; `params` is an instance of the task's params model."""

    workspace: WorkspaceRef | None
    params: object


def parse_task_input(raw: JsonObject, params: PayloadModel, *, has_workspace: bool) -> TaskInput:
    """Validate a whole task input, or raise `InvalidInputError` naming every bad field."""
    models = {"workspace": WORKSPACE, "params": params} if has_workspace else {"params": params}
    problems = [
        f"{key}: is not a known key{suggest(key, models)}" for key in raw if key not in models
    ]
    for key, model in models.items():
        problems += model.problems(raw[key], at=key) if key in raw else [f"{key}: is missing"]
    if problems:
        shape = ", ".join(f'"{k}": {describe_object(m.input_schema)}' for k, m in models.items())
        raise InvalidInputError(
            "the task input is refused: " + "; ".join(problems),
            hint=f"an input looks like {{{shape}}}",
        )
    return TaskInput(
        workspace=_workspace_ref(raw["workspace"]) if has_workspace else None,
        params=params.validate(raw["params"]),
    )


def parse_workspace(raw: JsonObject) -> WorkspaceRef:
    """The workspace of a task input that was validated before."""
    return _workspace_ref(raw.get("workspace"))


def dump_task_result(value: object, model: PayloadModel, *, max_bytes: int) -> JsonObject:
    """The JSON of a body's result, or raise `InvalidResultError`."""
    if not isinstance(value, model.type):
        raise InvalidResultError(
            f"the body returned {type(value).__name__}, not {model.name}",
            hint=f"return an instance of {model.name}, as the body's return type says",
        )
    problems = _unfit_values(value, model)
    if problems:
        raise InvalidResultError(
            f"the result does not fit {model.name}: " + "; ".join(problems),
            hint=f"a result looks like {describe_object(model.output_schema)}",
        )
    result = model.dump(value)
    _refuse_large(result, model, max_bytes)
    return result


def input_schema(params: PayloadModel, *, has_workspace: bool) -> JsonObject:
    """The JSON schema of a whole input."""
    return _envelope("validation", params=params, has_workspace=has_workspace)


def output_schema(result: PayloadModel, *, has_workspace: bool) -> JsonObject:
    """The JSON schema of a whole output."""
    return _envelope("serialization", result=result, has_workspace=has_workspace)


def _envelope(
    mode: Literal["validation", "serialization"],
    *,
    has_workspace: bool,
    **models: PayloadModel,
) -> JsonObject:
    parts = {"workspace": WORKSPACE, **models} if has_workspace else models
    # One call for all parts, so that two models of the same name get definitions of their own.
    references, definitions = TypeAdapter.json_schemas(
        [(key, mode, model.adapter) for key, model in parts.items()]
    )
    return {
        "$schema": DIALECT,
        "type": "object",
        "properties": {key: references[key, mode] for key in parts},
        "required": list(parts),
        "additionalProperties": False,
        **definitions,
    }


def _workspace_ref(raw: JsonValue) -> WorkspaceRef:
    workspace = WORKSPACE.validate(raw)
    assert isinstance(workspace, Workspace)
    return WorkspaceRef(
        repository=RepositoryName(workspace.repository),
        branch=BranchName(workspace.branch),
        ref=CommitId(workspace.ref),
    )


def _unfit_values(value: object, model: PayloadModel) -> list[str]:
    """What is wrong with an instance of the right type."""
    if is_unchecked(model.type):
        assert dataclasses.is_dataclass(value)
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        given = {name: getattr(value, name) for name in fields}
        try:
            model.adapter.validate_python(given)
        except ValidationError as error:
            return describe_validation(error, at="result", values=given)
    try:
        dumped = model.adapter.dump_python(value, mode="json", by_alias=True, warnings="error")
    except (ValueError, RecursionError):
        # Its message quotes values. It happens when an instance was changed after it was made, and
        # when it is nested too deep or has a number that is too long to be written at all.
        return ["it holds a value that its model does not allow, or that cannot be JSON"]
    # Before anything is staged: what the orchestrator would refuse must not be published.
    problem = explain_unusable_json({"result": dumped})
    return [problem] if problem is not None else []


def _refuse_large(result: JsonObject, model: PayloadModel, max_bytes: int) -> None:
    size = len(json.dumps(result, ensure_ascii=False, allow_nan=False).encode())
    if size > max_bytes:
        raise InvalidResultError(
            f"the result ({model.name}) is {size} bytes of JSON; {max_bytes} can be reported",
            hint="write large data to the workspace and return where it is",
        )

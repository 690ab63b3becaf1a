"""What a step may refer to, and how its values become orchestrator JSON.

Invariant: every `${…}` that comes out of here names the workflow's input or a step that is surely
over when it is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic_core import PydanticSerializationError, to_jsonable_python

from perago.authoring.expressions import CurrentWorkspace, Expression, PipelineParam, ResultOf
from perago.authoring.models import PayloadModel
from perago.authoring.raw_tasks import RawTask
from perago.authoring.schemas import find_missing_field
from perago.authoring.steps import Step
from perago.authoring.wording import listed, suggest
from perago.domain.errors import PipelineError
from perago.domain.outcome import JsonValue

INPUT_WORKSPACE = "${workflow.input.workspace}"

EXPRESSION_TEXT = re.compile(r"(?<!\$)\$\{([^}.\[]*)[^}]*\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What one step sees: the pipeline's params, the steps that are over, the workspace.

    `known` holds the reference names of the whole pipeline, `beside` those of the other branches;
    they serve the messages.
    """

    at: str
    params: PayloadModel | None
    over: Mapping[str, Step | RawTask]
    beside: frozenset[str]
    known: frozenset[str]
    workspace: str

    def render(self, value: object, *, texts: bool) -> JsonValue:
        """A literal or an expression as JSON.

        `texts` says that a text may hold `${…}` of its own, as in the input of a raw task.
        """
        match value:
            case ResultOf() | PipelineParam() | CurrentWorkspace():
                return self._render_expression(value)
            case str():
                return self._check_text(value, texts=texts)
            case None | bool() | int():
                return value
            case float() if math.isfinite(value):
                return value
            case Mapping():
                return {
                    self._check_key(key): self.render(child, texts=texts)
                    for key, child in value.items()
                }
            case list() | tuple():
                return [self.render(child, texts=texts) for child in value]
            case _:
                return self.render(self._jsonable(value), texts=texts)

    def refusal(self, problem: str, *, hint: str) -> PipelineError:
        """An error that names the step."""
        return PipelineError(f"step {self.at!r}: {problem}", hint=hint)

    def _render_expression(self, expression: Expression) -> str:
        match expression:
            case CurrentWorkspace():
                return self.workspace
            case PipelineParam(path):
                self._check_pipeline_param(path)
                return f"${{workflow.input.params.{path}}}"
            case ResultOf(reference, path):
                return self._render_result(reference, path)

    def _render_result(self, reference: str, path: str) -> str:
        self._check_reference(reference)
        source = self.over[reference]
        parts = path.split(".") if path else []
        if isinstance(source, RawTask):
            return f"${{{'.'.join([reference, 'output', *parts])}}}"
        missing = find_missing_field(source.task.body.result.output_schema, parts)
        if missing is not None:
            name, fields = missing
            raise self.refusal(
                f"the result of {reference!r} ({source.task.body.result.name}) has no field "
                f"{name!r}{suggest(name, fields)}",
                hint=f"it has {listed(fields)}",
            )
        return f"${{{'.'.join([reference, 'output', 'result', *parts])}}}"

    def _check_reference(self, reference: str) -> None:
        if reference in self.over:
            return
        if reference in self.beside:
            raise self.refusal(
                f"{reference!r} runs beside it, in another branch of parallel(...)",
                hint="refer to it after parallel(...), or put both into one branch",
            )
        if reference in self.known:
            raise self.refusal(
                f"{reference!r} is not over when it starts",
                hint="refer to earlier steps only",
            )
        raise self.refusal(
            f"there is no step {reference!r}{suggest(reference, self.over)}",
            hint=f"the earlier steps are {listed(self.over)}",
        )

    def _check_pipeline_param(self, path: str) -> None:
        if self.params is None:
            raise self.refusal(
                f"pipeline_param({path!r}), but the pipeline has no params",
                hint="declare them: Pipeline(..., params=MyParams)",
            )
        missing = find_missing_field(self.params.input_schema, path.split("."))
        if missing is not None:
            name, fields = missing
            raise self.refusal(
                f"the pipeline's params ({self.params.name}) have no field "
                f"{name!r}{suggest(name, fields)}",
                hint=f"they have {listed(fields)}",
            )

    def _check_text(self, text: str, *, texts: bool) -> str:
        if not texts and "${" in text:
            raise self.refusal(
                f"the text {text!r} holds '${{', which the orchestrator would replace",
                hint="use result_of(...) or pipeline_param(...)",
            )
        for reference in EXPRESSION_TEXT.findall(text):
            if reference != "workflow":
                self._check_reference(reference)
        return text

    def _check_key(self, key: object) -> str:
        if isinstance(key, str):
            return key
        raise self.refusal(f"the key {key!r} is no text", hint="JSON objects have texts as keys")

    def _jsonable(self, value: object) -> object:
        """Dates, enums, models and their like as JSON."""
        problem = f"{value!r} is no JSON value"
        try:
            made: object = to_jsonable_python(value, inf_nan_mode="constants")
        except PydanticSerializationError:
            made = value
        if made is value:
            raise self.refusal(problem, hint="give numbers, texts, lists and dicts")
        return made

"""`Pipeline`: steps in order, wired when the pipeline is defined.

Invariant: a `Pipeline` that exists can be compiled; what cannot be wired safely raises
`PipelineError` where it is defined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel

from perago.authoring.definitions import WorkflowOutline, build_workflow_definition
from perago.authoring.models import PayloadModel
from perago.authoring.payload import input_schema
from perago.authoring.schemas import describe_object
from perago.authoring.steps import Element, Step, StepLike, as_elements, walk
from perago.authoring.tasks import AnyTask, explain_bad_email, explain_bad_name
from perago.authoring.wiring import Wiring, wire
from perago.domain.errors import DeclarationError, InvalidInputError, PipelineError
from perago.domain.outcome import JsonObject


class NoParams(BaseModel):
    """The params of a pipeline that declares none."""


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Pipeline:
    """Steps that run one after another on one workspace.

    Each step is a task, `step(...)`, `parallel(...)` or a raw task such as `human(...)`. The
    workspace is wired from the last writing step; a param of a task is wired to the pipeline's
    param of the same name. Without `owner_email`, the first task's owner owns the pipeline.
    """

    name: str
    version: int
    steps: tuple[Element, ...]
    params: PayloadModel
    description: str
    owner_email: str
    wiring: Wiring

    def __init__(
        self,
        name: str,
        version: int,
        steps: Sequence[StepLike],
        *,
        params: type | None = None,
        description: str = "",
        owner_email: str | None = None,
    ) -> None:
        _check_header(name, version)
        elements = as_elements(steps)
        if not elements:
            raise PipelineError(f"pipeline {name!r} has no steps")
        model = _params_model(name, params)
        values = {
            "name": name,
            "version": version,
            "steps": elements,
            "params": model,
            "description": description,
            "owner_email": _owner(name, elements, owner_email),
            "wiring": _wire(name, elements, model if params is not None else None),
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)

    @classmethod
    def of_task(cls, task: AnyTask) -> Pipeline:
        """A pipeline of one task, with its name and its params."""
        return cls(
            task.name,
            1,
            [task],
            params=task.body.params.type,
            description=task.description,
            owner_email=task.owner_email,
        )

    @property
    def tasks(self) -> list[AnyTask]:
        """The tasks that Perago workers run, each once, in order of appearance."""
        return list(dict.fromkeys(s.task for s in walk(self.steps) if isinstance(s, Step)))

    @property
    def needs_workspace(self) -> bool:
        """Whether a run needs a workspace."""
        return self.wiring.workspace is not None

    def validate_params(self, raw: JsonObject) -> JsonObject:
        """Params as a run takes them, defaults filled in; `InvalidInputError` names bad fields."""
        problems = self.params.problems(raw, at="params")
        if problems:
            raise InvalidInputError(
                f"the params of pipeline {self.name!r} are refused: " + "; ".join(problems),
                hint=f"they look like {describe_object(self.params.input_schema)}",
            )
        return self.params.dump(self.params.validate(raw))

    def workflow_definition(self) -> JsonObject:
        """The WorkflowDef that Conductor and the embedded orchestrator take."""
        return build_workflow_definition(
            WorkflowOutline(
                name=self.name,
                version=self.version,
                description=self.description,
                owner_email=self.owner_email,
                wiring=self.wiring,
                input_schema=input_schema(self.params, has_workspace=self.needs_workspace),
            )
        )

    def __repr__(self) -> str:
        return f"<pipeline {self.name!r} version {self.version}>"


def _check_header(name: str, version: int) -> None:
    problem = explain_bad_name(name)
    if problem is not None:
        raise PipelineError(f"pipeline: {problem}")
    if type(version) is not int or version < 1:
        raise PipelineError(
            f"pipeline {name!r}: its version is {version!r}", hint="count from 1 upwards"
        )


def _params_model(name: str, params: type | None) -> PayloadModel:
    try:
        return PayloadModel.of(NoParams if params is None else params)
    except DeclarationError as error:
        shown = getattr(params, "__name__", repr(params))
        raise PipelineError(
            f"pipeline {name!r}: params={shown} is refused: {error.message}",
            hint="give a Pydantic model or a dataclass",
        ) from error


def _owner(name: str, elements: Sequence[Element], owner_email: str | None) -> str:
    if owner_email is None:
        owners = (step.task.owner_email for step in walk(elements) if isinstance(step, Step))
        owner_email = next(owners, None)
    if owner_email is None:
        raise PipelineError(
            f"pipeline {name!r} has no owner", hint='add owner_email="you@example.com"'
        )
    problem = explain_bad_email(owner_email)
    if problem is not None:
        raise PipelineError(f"pipeline {name!r}: {problem}")
    return owner_email


def _wire(name: str, elements: Sequence[Element], params: PayloadModel | None) -> Wiring:
    try:
        return wire(elements, params)
    except PipelineError as error:
        raise PipelineError(f"pipeline {name!r}: {error.message}", hint=error.hint) from None

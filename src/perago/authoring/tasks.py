"""`@task`: a typed function becomes a task, or its module does not import.

Invariant: a `Task` is callable by the runner and acceptable to Conductor; whatever is wrong with
a declaration is said where it is made.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Generic, ParamSpec, TypeAlias, TypeVar

from perago.authoring.context import TaskContext
from perago.authoring.controls import TaskControls
from perago.authoring.payload import TaskInput, dump_task_result, parse_task_input
from perago.authoring.signature import (
    BodySignature,
    Role,
    WorkspaceKind,
    locate,
    read_signature,
)
from perago.authoring.workspace import WorkspaceSpec
from perago.domain.access import Access
from perago.domain.budget import explain_unpublishable_lease
from perago.domain.errors import DeclarationError
from perago.domain.outcome import JsonObject

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
# Enough to catch a name, a sentence or a forgotten argument; whether it arrives is no matter here.
EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s.]+")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task(Generic[P, R_co]):
    """A typed function with its declaration; made by `@task`.

    Calling it calls the plain function: nothing is checked out, checked or published.
    """

    name: str
    owner_email: str
    description: str
    workspace: WorkspaceSpec | None
    controls: TaskControls
    function: Callable[P, R_co]
    body: BodySignature
    location: str

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.function(*args, **kwargs)

    @property
    def needs_spark(self) -> bool:
        """Whether an attempt needs a Spark session."""
        return self.body.wants_spark or self.body.workspace_kind is WorkspaceKind.SPARK

    @property
    def writes_workspace(self) -> bool:
        """Whether an attempt may publish."""
        return self.workspace is not None and not self.workspace.read_only

    def parse_input(self, raw: JsonObject) -> TaskInput:
        """Validate an input; `InvalidInputError` names every bad field and repeats no value."""
        return parse_task_input(raw, self.body.params, has_workspace=self.workspace is not None)

    def dump_result(self, value: object, max_bytes: int) -> JsonObject:
        """The JSON of a result; `InvalidResultError` if it cannot be reported."""
        return dump_task_result(value, self.body.result, max_bytes=max_bytes)

    def invoke(
        self,
        *,
        workspace: object | None,
        params: object,
        spark: object | None,
        context: TaskContext,
    ) -> object:
        """Run the body, giving each parameter what its type asks for."""
        values = {
            Role.PATH: workspace,
            Role.SPARK_WORKSPACE: workspace,
            Role.PARAMS: params,
            Role.SPARK: spark,
            Role.CONTEXT: context,
        }
        positional: list[object] = []
        by_name: dict[str, object] = {}
        for parameter in self.body.parameters:
            value = values[parameter.role]
            assert value is not None, f"{self.name} was run without its {parameter.role.name}"
            if parameter.keyword_only:
                by_name[parameter.name] = value
            else:
                positional.append(value)
        body: Callable[..., object] = self.function
        return body(*positional, **by_name)

    def __repr__(self) -> str:
        return f"<task {self.name!r} at {self.location}>"


AnyTask: TypeAlias = Task[..., object]


def task(
    name: str,
    *,
    owner_email: str,
    workspace: WorkspaceSpec | None = None,
    controls: TaskControls | None = None,
    description: str | None = None,
) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Declare a typed function as a task.

    Its parameters are recognised by type, in any order: the workspace (`Path` or
    `SparkWorkspace`), the params (a Pydantic model or a dataclass), and optionally a `SparkSession`
    and a `TaskContext`. It returns a model. `description` defaults to the docstring's first
    paragraph.
    """
    if callable(name):
        raise DeclarationError(
            f"@task stands on {_name_of(name)} without its arguments",
            hint=f'write @task("{_name_of(name)}", owner_email="you@example.com") above it',
        )
    _check_header(name, owner_email)

    def declare(function: Callable[P, R]) -> Task[P, R]:
        body, location = _read_body(name, function, _names_around_caller(), workspace)
        declared = Task(
            name=name,
            owner_email=owner_email,
            description=description or _first_paragraph(function),
            workspace=workspace,
            controls=controls or TaskControls(),
            function=function,
            body=body,
            location=location,
        )
        _refuse_unpublishable(declared)
        return declared

    return declare


def explain_bad_name(name: str) -> str | None:
    """Say why a task or pipeline cannot have this name, or None when it can."""
    if NAME.fullmatch(name):
        return None
    return f"{name!r} is no name: use letters, digits, '_', '-' and '.', beginning with a letter"


def explain_bad_email(email: str) -> str | None:
    """Say why this is no owner's address, or None when it may be one."""
    return None if EMAIL.fullmatch(email) else f"owner_email {email!r} is no e-mail address"


def _check_header(name: str, owner_email: str) -> None:
    for problem in (explain_bad_name(name), explain_bad_email(owner_email)):
        if problem is not None:
            raise DeclarationError(
                f"@task({name!r}): {problem}",
                hint='such as @task("clean_flights", owner_email="data@example.com")',
            )


def _read_body(
    name: str,
    function: Callable[P, R],
    scope: Mapping[str, object],
    workspace: WorkspaceSpec | None,
) -> tuple[BodySignature, str]:
    if not isinstance(function, FunctionType):
        raise DeclarationError(
            f"@task({name!r}) stands on {_name_of(function)}, which is no plain function",
            hint="put @task directly above a `def`, above every other decorator",
        )
    body = read_signature(function, declares_workspace=workspace is not None, defining_scope=scope)
    if workspace is not None and workspace.access is Access.DIRECT:
        _refuse_direct_path(name, body, locate(function))
    return body, locate(function)


def _refuse_direct_path(name: str, body: BodySignature, location: str) -> None:
    if body.workspace_kind is not WorkspaceKind.SPARK:
        raise DeclarationError(
            f'task {name!r} ({location}) has a Path and access="direct": only Spark goes to the '
            "store by itself",
            hint="take a SparkWorkspace instead of the Path, or leave access out",
        )


def _refuse_unpublishable(declared: Task[P, R]) -> None:
    if not declared.writes_workspace:
        return
    controls = declared.controls
    problem = explain_unpublishable_lease(
        controls.timeout.response_seconds, controls.publish_budget
    )
    if problem is not None:
        raise DeclarationError(
            f"task {declared.name!r} ({declared.location}): {problem}",
            hint="raise TimeoutPolicy(response_seconds=...), or declare a PublishBudget with a "
            "shorter merge time-out",
        )


def _names_around_caller() -> dict[str, object]:
    """The local names where `@task` stands: a body's types may be defined beside it."""
    frame = inspect.currentframe()
    try:
        around = frame and frame.f_back and frame.f_back.f_back
        return dict(around.f_locals) if around else {}
    finally:
        del frame  # a frame that refers to itself lives until the next collection


def _first_paragraph(function: object) -> str:
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())


def _name_of(thing: object) -> str:
    named = getattr(thing, "__name__", None)
    return named if isinstance(named, str) else f"a {type(thing).__name__}"

"""The signature of a task's body: what it takes, recognised by type, and what it returns.

Invariant: a `BodySignature` exists only for a function that the runner can call. Everything else
is refused when the module is imported, with the signature that would have been right.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from pathlib import Path
from types import FunctionType

from perago.authoring.annotations import Unresolved, namespace_of, resolve, show
from perago.authoring.context import TaskContext
from perago.authoring.models import PayloadModel, is_model
from perago.domain.errors import DeclarationError
from perago.ports.spark import SparkWorkspace


class WorkspaceKind(StrEnum):
    """How a body gets its workspace."""

    NONE = "none"
    PATH = "path"
    SPARK = "spark"


class Role(Enum):
    """What a parameter of a body is for."""

    PATH = auto()
    SPARK_WORKSPACE = auto()
    PARAMS = auto()
    SPARK = auto()
    CONTEXT = auto()

    @property
    def is_workspace(self) -> bool:
        """Whether it takes the workspace."""
        return self in (Role.PATH, Role.SPARK_WORKSPACE)


ROLES_BY_NAME = {
    "Path": Role.PATH,
    "SparkWorkspace": Role.SPARK_WORKSPACE,
    "SparkSession": Role.SPARK,
    "TaskContext": Role.CONTEXT,
}
"""For annotations that only the type checker can resolve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyParameter:
    """One parameter and what is passed for it."""

    name: str
    role: Role
    keyword_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BodySignature:
    """What a body takes and returns."""

    parameters: tuple[BodyParameter, ...]
    params: PayloadModel
    result: PayloadModel

    @property
    def workspace_kind(self) -> WorkspaceKind:
        """How the body gets its workspace."""
        if self._has(Role.PATH):
            return WorkspaceKind.PATH
        return WorkspaceKind.SPARK if self._has(Role.SPARK_WORKSPACE) else WorkspaceKind.NONE

    @property
    def wants_spark(self) -> bool:
        """Whether it takes a `SparkSession`."""
        return self._has(Role.SPARK)

    @property
    def wants_context(self) -> bool:
        """Whether it takes a `TaskContext`."""
        return self._has(Role.CONTEXT)

    def _has(self, role: Role) -> bool:
        return any(parameter.role is role for parameter in self.parameters)


def locate(function: FunctionType) -> str:
    """`path/to/file.py:12`, where a function begins."""
    return f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"


def read_signature(
    function: FunctionType, *, declares_workspace: bool, defining_scope: Mapping[str, object]
) -> BodySignature:
    """Recognise a body's parameters by type, or refuse with the right signature.

    `defining_scope` holds the local names where the function is defined.
    """
    return _SignatureReader(function, declares_workspace, defining_scope).read()


class _SignatureReader:
    """Reads one signature; it knows enough of it at any time to show the right one."""

    def __init__(
        self,
        function: FunctionType,
        declares_workspace: bool,
        defining_scope: Mapping[str, object],
    ) -> None:
        self.function = function
        self.declares_workspace = declares_workspace
        self.namespace = namespace_of(function, defining_scope)
        self.signature = inspect.signature(function)
        self.returns = resolve(self.signature.return_annotation, self.namespace)

    def read(self) -> BodySignature:
        self._refuse_wrong_kind()
        parameters: dict[Role, BodyParameter] = {}
        for parameter in self.signature.parameters.values():
            role = self._role_of(parameter)
            if role in parameters:
                raise self.refusal(self._explain_twins(parameters[role].name, parameter.name, role))
            parameters[role] = BodyParameter(
                name=parameter.name,
                role=role,
                keyword_only=parameter.kind is inspect.Parameter.KEYWORD_ONLY,
            )
        self._refuse_wrong_workspace(parameters)
        if Role.PARAMS not in parameters:
            raise self.refusal("it has no params: one parameter must be a model")
        return BodySignature(
            parameters=tuple(parameters.values()),
            params=self._model(parameters[Role.PARAMS].name),
            result=self._result(),
        )

    def refusal(self, problem: str, *, instead: str = "") -> DeclarationError:
        """The error, with the signature that this function should have."""
        return DeclarationError(
            f"task body {self.function.__qualname__} ({locate(self.function)}): {problem}",
            hint=f"{instead}write it as  {self._expected()}",
        )

    def _refuse_wrong_kind(self) -> None:
        if inspect.iscoroutinefunction(self.function):
            raise self.refusal("it is `async def`; a body is a plain function")
        if inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(self.function):
            raise self.refusal("it is a generator; a body returns its result once")

    def _role_of(self, parameter: inspect.Parameter) -> Role:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise self.refusal(f"it takes {parameter}; every parameter must be named and typed")
        if parameter.annotation is parameter.empty:
            raise self.refusal(f"parameter {parameter.name!r} has no type")
        if parameter.default is not parameter.empty:
            raise self.refusal(
                f"parameter {parameter.name!r} has a default; Perago always passes it"
            )
        annotation = resolve(parameter.annotation, self.namespace)
        role = _recognise(annotation)
        if role is None:
            raise self.refusal(_explain_unknown(parameter.name, annotation))
        return role

    def _explain_twins(self, first: str, second: str, role: Role) -> str:
        what = {
            Role.PARAMS: "params; a body takes one model, so put all fields into it",
            Role.SPARK: "the SparkSession",
            Role.CONTEXT: "the TaskContext",
        }.get(role, "the workspace")
        return f"parameters {first!r} and {second!r} are both {what}"

    def _refuse_wrong_workspace(self, parameters: Mapping[Role, BodyParameter]) -> None:
        takes = [parameter.name for role, parameter in parameters.items() if role.is_workspace]
        if len(takes) > 1:
            raise self.refusal(f"parameters {takes[0]!r} and {takes[1]!r} are both the workspace")
        if takes and not self.declares_workspace:
            raise self.refusal(
                f"parameter {takes[0]!r} is a workspace, but @task has no workspace=",
                instead='add workspace=WorkspaceSpec(prefix="...") to @task, or ',
            )
        if self.declares_workspace and not takes:
            raise self.refusal("@task has workspace=, but no parameter takes it")

    def _model(self, name: str) -> PayloadModel:
        annotation = resolve(self.signature.parameters[name].annotation, self.namespace)
        try:
            return PayloadModel.of(annotation, self.namespace)
        except DeclarationError as error:
            raise self.refusal(
                f"parameter {name!r} cannot be {show(annotation)}: {error.message}"
            ) from error

    def _result(self) -> PayloadModel:
        if self.returns is inspect.Signature.empty:
            raise self.refusal("it has no return type; a body returns a model")
        if isinstance(self.returns, Unresolved):
            raise self.refusal(_explain_unresolved("its return type", self.returns))
        try:
            return PayloadModel.of(self.returns, self.namespace)
        except DeclarationError as error:
            raise self.refusal(f"it cannot return {show(self.returns)}: {error.message}") from error

    def _expected(self) -> str:
        """The right signature, in the author's own names where they fit."""
        found: dict[Role, tuple[str, str]] = {}
        for parameter in self.signature.parameters.values():
            annotation = resolve(parameter.annotation, self.namespace)
            role = _recognise(annotation)
            if role is not None:
                found.setdefault(role, (parameter.name, show(annotation)))
        stem = "".join(part.capitalize() for part in self.function.__name__.split("_"))
        shown = []
        if self.declares_workspace:
            workspace = found.get(Role.SPARK_WORKSPACE) or found.get(Role.PATH)
            shown.append(workspace or ("workspace", "Path"))
        shown.append(found.get(Role.PARAMS) or ("params", f"{stem}Params"))
        shown += [found[role] for role in (Role.SPARK, Role.CONTEXT) if role in found]
        result = show(self.returns) if is_model(self.returns) else f"{stem}Result"
        listed = ", ".join(f"{name}: {annotation}" for name, annotation in shown)
        return f"def {self.function.__name__}({listed}) -> {result}: ..."


def _recognise(annotation: object) -> Role | None:
    if isinstance(annotation, Unresolved):
        return ROLES_BY_NAME.get(annotation.last_name)
    if annotation is Path:
        return Role.PATH
    if annotation is SparkWorkspace:
        return Role.SPARK_WORKSPACE
    if annotation is TaskContext:
        return Role.CONTEXT
    if _is_spark_session(annotation):
        return Role.SPARK
    return Role.PARAMS if is_model(annotation) else None


def _is_spark_session(annotation: object) -> bool:
    # By name: pyspark is imported in its adapter alone, and may not be installed at all.
    return (
        isinstance(annotation, type)
        and annotation.__qualname__ == "SparkSession"
        and f"{annotation.__module__}.".startswith("pyspark.sql.")
    )


def _explain_unknown(name: str, annotation: object) -> str:
    if isinstance(annotation, Unresolved):
        return _explain_unresolved(f"the type of parameter {name!r}", annotation)
    return (
        f"parameter {name!r} is a {show(annotation)}; a parameter is the workspace (Path or "
        "SparkWorkspace), the params (a Pydantic model or a dataclass), a SparkSession or a "
        "TaskContext"
    )


def _explain_unresolved(what: str, annotation: Unresolved) -> str:
    return (
        f"{what}, {annotation.text!r}, is unknown at run time; import or define it where the "
        "function is, not under TYPE_CHECKING"
    )

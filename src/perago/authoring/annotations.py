"""Annotations of a body's parameters, resolved one by one.

One by one, because a single name that exists for the type checker alone, such as a `SparkSession`
imported under `TYPE_CHECKING`, must not hide the others.
"""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType, SimpleNamespace


@dataclass(frozen=True, slots=True)
class Unresolved:
    """An annotation whose names do not exist at run time."""

    text: str

    @property
    def last_name(self) -> str:
        """`SparkSession` of `sql.SparkSession`."""
        return self.text.strip("'\" ").rpartition(".")[2]


def namespace_of(function: FunctionType, defining_scope: Mapping[str, object]) -> dict[str, object]:
    """The names that an annotation of the function may use, innermost scope winning."""
    closure: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a name that is bound later has an empty cell
            closure[name] = cell.cell_contents
    return {**function.__globals__, **closure, **defining_scope}


def resolve(annotation: object, namespace: Mapping[str, object]) -> object:
    """What an annotation means, `Annotated` stripped, or `Unresolved`."""
    holder = SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, dict(namespace), {})["it"]
    except (NameError, AttributeError, SyntaxError, TypeError):
        return Unresolved(annotation if isinstance(annotation, str) else repr(annotation))


def show(annotation: object) -> str:
    """An annotation as its author would write it."""
    if isinstance(annotation, Unresolved):
        return annotation.text
    if annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation.__name__
    return str(annotation).replace("typing.", "")

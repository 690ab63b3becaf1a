"""What a registered definition has otherwise than a declared one.

Invariant: a definition that was just registered shows no difference. Conductor fills in defaults of
its own wherever a definition leaves a field out, so only what was declared is compared, and beside
it the few fields that a declaration may have had before and has no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perago.domain.outcome import JsonObject, JsonValue

_FREE_FORM = frozenset({"data", "inputParameters", "outputParameters"})
"""Objects whose keys are people's own: there, a key too many is a difference."""

_ONCE_DECLARED: Mapping[str, JsonValue] = {
    "concurrentExecLimit": 0,
    "rateLimitPerFrequency": 0,
    "rateLimitFrequencyInSeconds": 1,
    "optional": False,
    "asyncComplete": False,
    "startDelay": 0,
    "joinOn": [],
    "forkTasks": [],
    "subWorkflowParam": None,
    "inputParameters": {},
    "inputSchema": None,
    "outputSchema": None,
}
"""Fields that Perago writes only where they say something, as Conductor 3.32.1 reads them when
they are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field: where it is, and what it is there and here; None where it is not set."""

    path: str
    registered: JsonValue
    declared: JsonValue


def find_differences(registered: JsonObject, declared: JsonObject) -> list[Difference]:
    """Every declared field that is registered otherwise."""
    return list(_compare_objects(registered, declared, "", free_form=False))


def _compare(
    there: JsonValue, here: JsonValue, path: str, *, free_form: bool
) -> Iterator[Difference]:
    if isinstance(there, dict) and isinstance(here, dict):
        yield from _compare_objects(there, here, path, free_form=free_form)
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        for index, (one, other) in enumerate(zip(there, here, strict=True)):
            yield from _compare(one, other, f"{path}[{index}]", free_form=free_form)
    elif not _is_same(there, here):
        yield Difference(path=path, registered=there, declared=here)


def _compare_objects(
    there: JsonObject, here: JsonObject, path: str, *, free_form: bool
) -> Iterator[Difference]:
    for name, value in here.items():
        yield from _compare(
            there.get(name),
            value,
            f"{path}.{name}" if path else name,
            free_form=free_form or name in _FREE_FORM,
        )
    for name, value in there.items():
        if name not in here and _says_something(name, value, free_form=free_form):
            place = f"{path}.{name}" if path else name
            yield Difference(path=place, registered=value, declared=None)


def _says_something(name: str, value: JsonValue, *, free_form: bool) -> bool:
    """Whether a field that is registered and not declared was once declared."""
    if free_form:
        return True
    return name in _ONCE_DECLARED and value is not None and value != _ONCE_DECLARED[name]


def _is_same(one: JsonValue, other: JsonValue) -> bool:
    # To Python true is 1, to a reader of JSON it is not.
    return one == other and isinstance(one, bool) == isinstance(other, bool)

"""Params and result models: what Pydantic knows of them, in Perago's words.

Invariant: no message made here repeats a value that was handed in. An input may hold a secret by
mistake, and messages end up in logs and in the orchestrator.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeGuard, cast

from pydantic import AliasChoices, AliasPath, BaseModel, RootModel, TypeAdapter, ValidationError
from pydantic.dataclasses import is_pydantic_dataclass
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo

from perago.authoring.schemas import find_secret, object_fields, required_fields
from perago.authoring.wording import describe_validation, suggest
from perago.domain.errors import DeclarationError
from perago.domain.outcome import JsonObject, JsonValue


@dataclass(frozen=True, slots=True, eq=False)
class PayloadModel:
    """A Pydantic model or a dataclass that travels as a JSON object."""

    type: type
    adapter: TypeAdapter[object]
    input_schema: JsonObject
    output_schema: JsonObject

    @classmethod
    def of(cls, candidate: object, namespace: Mapping[str, object] | None = None) -> PayloadModel:
        """Look a type over, or raise `DeclarationError` saying why it cannot travel.

        `namespace` resolves names in its fields' annotations that are not global to its module.
        """
        if not is_model(candidate):
            raise DeclarationError("it is neither a Pydantic model nor a dataclass")
        if issubclass(candidate, RootModel):
            raise DeclarationError("a RootModel is not an object with named fields")
        try:
            adapter: TypeAdapter[object] = TypeAdapter(candidate)
            if not adapter.pydantic_complete:
                adapter.rebuild(force=True, _types_namespace=dict(namespace or {}))
            model = cls(
                type=candidate,
                adapter=adapter,
                input_schema=adapter.json_schema(mode="validation"),
                output_schema=adapter.json_schema(mode="serialization"),
            )
        except (PydanticUserError, PydanticUndefinedAnnotation) as error:
            raise DeclarationError(str(error).splitlines()[0]) from error
        for schema in (model.input_schema, model.output_schema):
            if (secret := find_secret(schema)) is not None:
                raise DeclarationError(
                    f"its field {secret!r} is a secret; a worker reads secrets from its own "
                    "environment, never from an input, and never reports one"
                )
        return model

    @property
    def name(self) -> str:
        """What the author calls it."""
        return self.type.__name__

    @property
    def input_fields(self) -> dict[str, JsonObject]:
        """The schema of each field of an input, by its name in JSON."""
        return object_fields(self.input_schema, self.input_schema)

    @property
    def required(self) -> list[str]:
        """The fields that an input must have."""
        return required_fields(self.input_schema)

    def validate(self, raw: JsonValue) -> object:
        """An instance, or a `ValidationError`; unknown fields are not looked for."""
        # As JSON, so that a date is a text and a tuple a list, whatever strictness the model has.
        return self.adapter.validate_json(json.dumps(raw))

    def dump(self, value: object) -> JsonObject:
        """The JSON of an instance."""
        return cast(JsonObject, self.adapter.dump_python(value, mode="json", by_alias=True))

    def problems(self, raw: JsonValue, *, at: str) -> list[str]:
        """Everything that is wrong with an input, one sentence each, values left out."""
        if not isinstance(raw, dict):
            return [f"{at}: is not an object"]
        found = [
            f"{at}.{key}: is not a known field{suggest(key, self.input_fields)}"
            for key in self._unknown_keys(raw)
        ]
        try:
            self.validate(raw)
        except ValidationError as error:
            found += describe_validation(error, at=at, values=raw)
        return found

    def _unknown_keys(self, raw: Mapping[str, object]) -> list[str]:
        """Keys that the model would silently ignore; one that sets `extra` decides for itself."""
        config = _config(self.type)
        if "extra" in config:
            return []
        by_name = bool(config.get("populate_by_name") or config.get("validate_by_name"))
        known = set(self.input_fields)
        for name, field in _pydantic_fields(self.type).items():
            known.update(_aliases(field))
            if by_name:
                known.add(name)
        return [key for key in raw if key not in known]


def is_model(candidate: object) -> TypeGuard[type]:
    """Whether something is a type that Perago takes for params and results."""
    return isinstance(candidate, type) and (
        issubclass(candidate, BaseModel) or dataclasses.is_dataclass(candidate)
    )


def is_unchecked(candidate: type) -> bool:
    """Whether instances are made without a look at their values, as by a plain dataclass."""
    return dataclasses.is_dataclass(candidate) and not is_pydantic_dataclass(candidate)


def _config(model: type) -> Mapping[str, object]:
    if issubclass(model, BaseModel):
        return cast(Mapping[str, object], model.model_config)
    return cast(Mapping[str, object], getattr(model, "__pydantic_config__", {}))


def _pydantic_fields(model: type) -> Mapping[str, FieldInfo]:
    if issubclass(model, BaseModel):
        return model.model_fields
    return cast(Mapping[str, FieldInfo], getattr(model, "__pydantic_fields__", {}))


def _aliases(field: FieldInfo) -> Iterator[str]:
    alias = field.validation_alias
    for choice in alias.choices if isinstance(alias, AliasChoices) else [alias]:
        first = choice.path[0] if isinstance(choice, AliasPath) else choice
        if isinstance(first, str):
            yield first

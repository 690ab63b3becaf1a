"""Reading JSON schemas as Pydantic writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from perago.domain.outcome import JsonObject, JsonValue

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def follow(schema: JsonObject, root: JsonObject) -> JsonObject:
    """The schema that a `$ref` stands for; any other schema is itself."""
    reference = schema.get("$ref")
    definitions = root.get("$defs")
    if isinstance(reference, str) and isinstance(definitions, dict):
        found = definitions.get(reference.rpartition("/")[2])
        if isinstance(found, dict):
            return found
    return schema


def object_fields(schema: JsonObject, root: JsonObject) -> dict[str, JsonObject]:
    """The schemas of an object's fields; empty for what has none."""
    properties = follow(schema, root).get("properties")
    if not isinstance(properties, dict):
        return {}
    return {name: field for name, field in properties.items() if isinstance(field, dict)}


def required_fields(schema: JsonObject) -> list[str]:
    """The fields that an object must have."""
    return cast(list[str], follow(schema, schema).get("required", []))


def find_secret(schema: JsonValue, name: str = "") -> str | None:
    """The name of a field that Pydantic marks write-only, as it does `SecretStr` and its like."""
    children: list[tuple[str, JsonValue]] = []
    if isinstance(schema, dict):
        if schema.get("writeOnly") is True:
            return name
        for key, child in schema.items():
            if key == "properties" and isinstance(child, dict):
                children += child.items()
            else:
                children.append((name, child))
    elif isinstance(schema, list):
        children = [(name, child) for child in schema]
    return next((hit for key, child in children if (hit := find_secret(child, key))), None)


def find_missing_field(schema: JsonObject, path: Sequence[str]) -> tuple[str, list[str]] | None:
    """The first part of a path that an object lacks, with the fields it has there.

    None when the path exists, or leads into something whose fields the schema does not tell.
    """
    here = schema
    for part in path:
        fields = object_fields(here, schema)
        if not fields:
            return None
        if part not in fields:
            return part, list(fields)
        here = fields[part]
    return None


def describe_object(schema: JsonObject) -> str:
    """An object's shape in one line, such as `{"year": integer, "carrier": string (optional)}`."""
    required = required_fields(schema)
    fields = [
        f'"{name}": {_describe_type(field, schema)}{"" if name in required else " (optional)"}'
        for name, field in object_fields(schema, schema).items()
    ]
    return "{" + ", ".join(fields) + "}"


def _describe_type(schema: JsonObject, root: JsonObject) -> str:
    schema = follow(schema, root)
    match schema:
        case {"const": constant}:
            return f'"{constant}"' if isinstance(constant, str) else str(constant)
        case {"anyOf": list(options)}:
            return " | ".join(_describe_type(o, root) for o in options if isinstance(o, dict))
        case {"type": str(kind)}:
            return kind
        case _:
            return "..."

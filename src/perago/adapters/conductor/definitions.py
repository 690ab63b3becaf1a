"""TaskDefs and WorkflowDefs on a Conductor server, passed through as the JSON that they are."""

from __future__ import annotations

from perago.adapters.conductor.answers import Asked, quote_words
from perago.adapters.conductor.api import ConductorApi, as_object
from perago.adapters.conductor.updates import encode_json
from perago.adapters.conductor.wire import parse_json, quote_path
from perago.domain.errors import (
    InvalidDefinitionError,
    NotFoundInOrchestratorError,
    OrchestratorError,
)
from perago.domain.json_limits import explain_unusable_json
from perago.domain.outcome import JsonObject


class Definitions:
    """The definitions of one server."""

    def __init__(self, api: ConductorApi) -> None:
        self._api = api

    def register_task(self, definition: JsonObject) -> None:
        asked = _asked_to_register("task", definition)
        body = encode_json([definition], asked.what)
        self._api.change("POST", "/metadata/taskdefs", asked, body=body)

    def register_workflow(self, definition: JsonObject) -> None:
        asked = _asked_to_register("workflow", definition)
        body = encode_json([definition], asked.what)
        answer = self._api.change("PUT", "/metadata/workflow", asked, body=body)
        # One that the server could not store is answered with 200 too.
        refused = _object_of(answer, asked).get("bulkErrorResults")
        if refused:
            said = "; ".join(map(quote_words, as_object(refused, asked).values()))
            raise InvalidDefinitionError(
                f"could not {asked.what}: the server said: {said}",
                hint="change the declaration that it was made from, then register again",
            )

    def find_task(self, name: str) -> JsonObject | None:
        asked = Asked(what=f"read the definition of task {name!r}", names=(name,))
        return self._find(f"/metadata/taskdefs/{quote_path(name)}", asked, {})

    def find_workflow(self, name: str, version: int | None = None) -> JsonObject | None:
        asked = Asked(what=f"read the definition of workflow {name!r}", names=(name,))
        query = {"version": version} if version is not None else {}
        return self._find(f"/metadata/workflow/{quote_path(name)}", asked, query)

    def _find(self, path: str, asked: Asked, query: dict[str, int]) -> JsonObject | None:
        try:
            found = as_object(self._api.read(path, asked, query=query), asked)
        except NotFoundInOrchestratorError:
            return None
        problem = explain_unusable_json(found)
        if problem is not None:
            raise OrchestratorError(
                f"could not {asked.what}: {problem}",
                hint="register it again from its declaration",
            )
        return found


def _asked_to_register(kind: str, definition: JsonObject) -> Asked:
    return Asked(
        what=f"register {kind} {definition.get('name')!r}",
        is_definition=True,
    )


def _object_of(answer: bytes, asked: Asked) -> JsonObject:
    return as_object(parse_json(answer or b"{}", asked), asked)

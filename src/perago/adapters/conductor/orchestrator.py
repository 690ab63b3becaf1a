"""The Orchestrator port on a Conductor server.

Invariants: a task is only ever updated by its own id, never by its reference name, which would
complete whatever attempt is current; and what the server says of a task is read afresh each time.
What is relied on of Conductor's behaviour is in ADR 0009.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from types import TracebackType
from typing import Self
from urllib.parse import quote

from perago.adapters.conductor.answers import Asked, explain_nonsense
from perago.adapters.conductor.api import ConductorApi, as_object, as_objects
from perago.adapters.conductor.connection import ConductorConnection
from perago.adapters.conductor.polling import Polling
from perago.adapters.conductor.records import Record, build_snapshot, build_workflow_state
from perago.adapters.conductor.updates import (
    build_hand_back,
    build_heartbeat,
    build_report,
    encode_json,
)
from perago.adapters.conductor.wire import Query
from perago.domain.attempt import Attempt, AttemptSnapshot, decide_staleness
from perago.domain.errors import (
    InvalidDefinitionError,
    NotFoundInOrchestratorError,
    OrchestratorError,
    OrchestratorUnavailableError,
)
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.outcome import JsonObject, JsonValue, Outcome
from perago.domain.workflow import LogLine, PolledTask, WorkflowState

MAX_OUTPUT_BYTES = 3072 * 1024
"""Above it a server with default settings moves the output out of the task into another store, and
readers of the task find it empty."""
_PAGE = 100
_UNFINISHED = "status IN (RUNNING,PAUSED)"
_KEPT_OWNERS = 4096


class ConductorOrchestrator:
    """The Orchestrator port; safe to use from many threads, and closed by its `with`."""

    def __init__(
        self, connection: ConductorConnection, *, max_output_bytes: int = MAX_OUTPUT_BYTES
    ) -> None:
        """`max_output_bytes` is the server's threshold for the payload of a task's output."""
        self._api = ConductorApi(connection)
        self._polling = Polling(self._api)
        self._max_output_bytes = max_output_bytes
        # Which instance a task belongs to never changes; all else of a task is read afresh.
        self._owner_of = lru_cache(maxsize=_KEPT_OWNERS)(self._read_owner)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._api.close()

    @property
    def max_output_bytes(self) -> int:
        return self._max_output_bytes

    def register_task(self, definition: JsonObject) -> None:
        asked = _asked_to_register("task", definition)
        body = encode_json([definition], asked.what)
        self._api.change("POST", "/metadata/taskdefs", asked, body=body)

    def register_workflow(self, definition: JsonObject) -> None:
        asked = _asked_to_register("workflow", definition)
        body = encode_json([definition], asked.what)
        answer = self._api.change("PUT", "/metadata/workflow", asked, body=body)
        # One that the server could not store is answered with 200 too.
        refused = Record(_object_of(answer, asked), asked).object("bulkErrorResults")
        if refused:
            said = "; ".join(str(reason) for reason in refused.values())
            raise InvalidDefinitionError(
                f"could not {asked.what}: the server said: {said}",
                hint="change the declaration that it was made from, then register again",
            )

    def find_task_definition(self, name: str) -> JsonObject | None:
        asked = Asked(what=f"read the definition of task {name!r}", missing="no such task")
        return self._find(f"/metadata/taskdefs/{quote(name, safe='')}", asked, {})

    def find_workflow_definition(self, name: str, version: int | None = None) -> JsonObject | None:
        asked = Asked(what=f"read the definition of workflow {name!r}", missing="no such workflow")
        query = {"version": version} if version is not None else {}
        return self._find(f"/metadata/workflow/{quote(name, safe='')}", asked, query)

    def start_workflow(
        self, name: str, *, workflow_input: JsonObject, version: int | None = None
    ) -> WorkflowId:
        which = f"workflow {name!r}" + (f" version {version}" if version is not None else "")
        asked = Asked(what=f"start {which}", missing=f"{which} is not registered", changes=True)
        request: JsonObject = {"name": name, "input": workflow_input}
        if version is not None:
            request["version"] = version
        body = encode_json(request, f"the input of {which}")
        answer = self._api.post_once("/workflow", asked, body)
        workflow_id = answer.decode("utf-8", "replace").strip().strip('"')
        if not workflow_id or " " in workflow_id or "<" in workflow_id:
            raise explain_nonsense(asked, "no workflow id")
        return WorkflowId(workflow_id)

    def poll(
        self, task_names: Sequence[str], *, worker_id: WorkerId, count: int, wait_seconds: float
    ) -> list[PolledTask]:
        return self._polling.poll(task_names, worker_id, count, wait_seconds)

    def snapshot(self, task_id: TaskId) -> AttemptSnapshot:
        asked = _asked_of_task("look at", task_id)
        workflow = self._api.read_briefly(_workflow_path(self._owner_of(task_id)), asked)
        found = build_snapshot(workflow, task_id, asked)
        if found is None:
            raise NotFoundInOrchestratorError(asked.missing, hint=_LOOK_UP)
        return found

    def heartbeat(self, attempt: Attempt) -> None:
        asked = _asked_of_task("keep the lease of", attempt.task_id)
        self._api.change_briefly("/tasks", asked, build_heartbeat(attempt))

    def hand_back(self, attempt: Attempt) -> None:
        # The server would take it from whoever holds it. It has no conditional update, so between
        # this look and the update another could in theory poll it: only after our lease ran out.
        if decide_staleness(attempt, self.snapshot(attempt.task_id)) is None:
            asked = _asked_of_task("hand back", attempt.task_id)
            self._api.change_briefly("/tasks", asked, build_hand_back(attempt))

    def report(self, attempt: Attempt, outcome: Outcome) -> None:
        body = build_report(attempt, outcome, max_output_bytes=self._max_output_bytes)
        asked = _asked_of_task("report the end of", attempt.task_id)
        self._api.change_briefly("/tasks", asked, body)

    def append_log(self, task_id: TaskId, text: str) -> None:
        asked = _asked_of_task("write to the log of", task_id)
        path = f"/tasks/{quote(task_id, safe='')}/log"
        body = text.encode("utf-8", "backslashreplace") or b" "
        self._api.post_once(path, asked, body, content_type="text/plain; charset=utf-8")

    def read_log(self, task_id: TaskId) -> list[LogLine]:
        asked = _asked_of_task("read the log of", task_id)
        found = self._api.read(f"/tasks/{quote(task_id, safe='')}/log", asked)
        lines = []
        for line in as_objects(found or [], asked):
            record = Record(line, asked)
            at, text = record.moment("createdTime"), record.text("log")
            if at is not None:
                lines.append(LogLine(at=at, text=text))
        return sorted(lines, key=lambda line: line.at)

    def workflow(self, workflow_id: WorkflowId) -> WorkflowState:
        asked = _asked_of_workflow("look at", workflow_id)
        found = self._api.read(_workflow_path(workflow_id), asked)
        return build_workflow_state(as_object(found, asked), asked)

    def workflows(self, *, limit: int = 50, name: str | None = None) -> list[WorkflowState]:
        # The search shows no tasks.
        return [self.workflow(one) for one in self.workflow_ids(limit=limit, name=name)]

    def workflow_ids(
        self, *, limit: int, unfinished: bool = False, name: str | None = None
    ) -> list[WorkflowId]:
        asked = Asked(what="list the workflows", missing="this server has no search")
        conditions = [_UNFINISHED] if unfinished else []
        if name is not None:
            conditions.append(f"workflowType IN ({name})")
        wanted: Query = {"query": " AND ".join(conditions)} if conditions else {}
        newest: list[WorkflowId] = []
        while len(newest) < limit:
            size = min(_PAGE, limit - len(newest))
            query: Query = {
                "start": len(newest),
                "size": size,
                "sort": "startTime:DESC",
                "freeText": "*",
                **wanted,
            }
            found = as_object(self._api.read("/workflow/search", asked, query=query), asked)
            page = Record(found, asked).objects("results")
            newest += [WorkflowId(Record(one, asked).text("workflowId")) for one in page]
            if len(page) < size:
                break
        return newest

    def terminate(self, workflow_id: WorkflowId, reason: str) -> None:
        asked = _asked_of_workflow("terminate", workflow_id)
        try:
            self._api.change("DELETE", _workflow_path(workflow_id), asked, query={"reason": reason})
        except OrchestratorUnavailableError:
            raise
        except OrchestratorError:
            # The server refuses to end what has COMPLETED.
            if not self.workflow(workflow_id).status.is_terminal:
                raise

    def _find(self, path: str, asked: Asked, query: dict[str, int]) -> JsonObject | None:
        try:
            return as_object(self._api.read(path, asked, query=query), asked)
        except NotFoundInOrchestratorError:
            return None

    def _read_owner(self, task_id: TaskId) -> WorkflowId:
        asked = _asked_of_task("look at", task_id)
        found = self._api.read_briefly(f"/tasks/{quote(task_id, safe='')}", asked)
        return WorkflowId(Record(found, asked).text("workflowInstanceId"))


_LOOK_UP = "look up its id in its workflow instance"


def _workflow_path(workflow_id: WorkflowId) -> str:
    return f"/workflow/{quote(workflow_id, safe='')}"


def _asked_of_task(verb: str, task_id: TaskId) -> Asked:
    return Asked(what=f"{verb} task {task_id}", missing=f"there is no task {task_id!r}")


def _asked_of_workflow(verb: str, workflow_id: WorkflowId) -> Asked:
    missing = f"there is no workflow instance {workflow_id!r}"
    return Asked(what=f"{verb} workflow {workflow_id}", missing=missing)


def _asked_to_register(kind: str, definition: JsonObject) -> Asked:
    return Asked(
        what=f"register {kind} {definition.get('name')!r}",
        missing="this server takes no definitions",
        is_definition=True,
    )


def _object_of(answer: bytes, asked: Asked) -> JsonObject:
    try:
        found: JsonValue = json.loads(answer or b"{}")
    except ValueError:
        raise explain_nonsense(asked, "no JSON") from None
    return as_object(found, asked)

"""The Orchestrator port on a Conductor server.

Invariants: a task is only ever updated by its own id, never by its reference name, which would
complete whatever attempt is current; and what the server says of a task is read afresh each time.
What is relied on of Conductor's behaviour is in ADR 0009.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from types import TracebackType
from typing import Self

from perago.adapters.conductor.answers import Asked, explain_nonsense
from perago.adapters.conductor.api import ConductorApi, as_object, as_objects
from perago.adapters.conductor.connection import ConductorConnection
from perago.adapters.conductor.definitions import Definitions
from perago.adapters.conductor.polling import Polling
from perago.adapters.conductor.records import Record, build_snapshot, build_workflow_state
from perago.adapters.conductor.updates import (
    build_hand_back,
    build_heartbeat,
    build_report,
    encode_json,
)
from perago.adapters.conductor.wire import Query, quote_path
from perago.domain.attempt import Attempt, AttemptSnapshot, decide_staleness
from perago.domain.errors import (
    NotFoundInOrchestratorError,
    OrchestratorError,
    OrchestratorUnavailableError,
)
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.outcome import JsonObject, Outcome
from perago.domain.reports import (
    AlreadyReported,
    ReportDecision,
    SendReport,
    StaleReport,
    decide_report,
)
from perago.domain.workflow import LogLine, PolledTask, WorkflowState

_log = logging.getLogger(__name__)

MAX_OUTPUT_BYTES = 3072 * 1024
"""Above it a server with default settings moves the output out of the task into another store, and
readers of the task find it empty."""
_PAGE = 100
_UNFINISHED = "status IN (RUNNING,PAUSED)"
_KEPT_OWNERS = 4096
_DEEPEST_SUB_WORKFLOW = 100


class ConductorOrchestrator:
    """The Orchestrator port; safe to use from many threads, and closed by its `with`."""

    def __init__(
        self, connection: ConductorConnection, *, max_output_bytes: int = MAX_OUTPUT_BYTES
    ) -> None:
        """`max_output_bytes` is the server's threshold for the payload of a task's output."""
        self._api = ConductorApi(connection)
        self._definitions = Definitions(self._api)
        self._polling = Polling(self._api)
        self._max_output_bytes = max_output_bytes
        # Which instance a task belongs to never changes; all else of a task is read afresh.
        self._owner_of = lru_cache(maxsize=_KEPT_OWNERS)(self._read_owner)
        # Neither does what an instance is a sub-workflow of.
        self._parent_of = lru_cache(maxsize=_KEPT_OWNERS)(self._read_parent)

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
        self._definitions.register_task(definition)

    def register_workflow(self, definition: JsonObject) -> None:
        self._definitions.register_workflow(definition)

    def find_task_definition(self, name: str) -> JsonObject | None:
        return self._definitions.find_task(name)

    def find_workflow_definition(self, name: str, version: int | None = None) -> JsonObject | None:
        return self._definitions.find_workflow(name, version)

    def start_workflow(
        self, name: str, *, workflow_input: JsonObject, version: int | None = None
    ) -> WorkflowId:
        which = f"workflow {name!r}" + (f" version {version}" if version is not None else "")
        asked = Asked(
            what=f"start {which}",
            missing=f"{which} is not registered",
            names=(name,),
            changes=True,
        )
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
        owner = self._owner_of(task_id)
        workflow = self._api.read_briefly(_workflow_path(owner), replace(asked, names=(owner,)))
        return _require_snapshot(workflow, task_id, asked)

    def heartbeat(self, attempt: Attempt) -> None:
        asked = _asked_of_task("keep the lease of", attempt.task_id, attempt.workflow_id)
        self._api.change_briefly("/tasks", asked, build_heartbeat(attempt))

    def hand_back(self, attempt: Attempt) -> None:
        # The server would take it from whoever holds it. It has no conditional update, so between
        # this look and the update another could in theory poll it: only after our lease ran out.
        if decide_staleness(attempt, self.snapshot(attempt.task_id)) is None:
            asked = _asked_of_task("hand back", attempt.task_id, attempt.workflow_id)
            self._api.change_briefly("/tasks", asked, build_hand_back(attempt))

    def report(self, attempt: Attempt, outcome: Outcome) -> str | None:
        # The server takes any report, also a stale one, and lets it end a healthy attempt.
        body = build_report(attempt, outcome, max_output_bytes=self._max_output_bytes)
        asked = _asked_of_task("report the end of", attempt.task_id, attempt.workflow_id)
        decision: ReportDecision = AlreadyReported()

        def decide(workflow: JsonObject) -> bytes | None:
            nonlocal decision
            snapshot = _require_snapshot(workflow, attempt.task_id, asked)
            decision = decide_report(attempt, snapshot, outcome)
            return body if isinstance(decision, SendReport) else None

        path = _workflow_path(attempt.workflow_id)
        self._api.look_and_change_briefly(path, "/tasks", asked, decide)
        return decision.reason if isinstance(decision, StaleReport) else None

    def append_log(self, task_id: TaskId, text: str) -> None:
        asked = _asked_of_task("write to the log of", task_id)
        path = f"/tasks/{quote_path(task_id)}/log"
        body = text.encode("utf-8", "backslashreplace") or b" "
        self._api.post_once(path, asked, body, content_type="text/plain; charset=utf-8")

    def read_log(self, task_id: TaskId) -> list[LogLine]:
        asked = _asked_of_task("read the log of", task_id)
        found = self._api.read(f"/tasks/{quote_path(task_id)}/log", asked)
        lines = []
        for line in as_objects(found or [], asked):
            record = Record(line, asked)
            at = record.moment("createdTime")
            if at is not None:
                lines.append(LogLine(at=at, text=record.optional_text("log") or ""))
        return sorted(lines, key=lambda line: line.at)

    def workflow(self, workflow_id: WorkflowId) -> WorkflowState:
        asked = _asked_of_workflow("look at", workflow_id)
        found = self._api.read(_workflow_path(workflow_id), asked)
        return build_workflow_state(as_object(found, asked), asked)

    def find_root(self, workflow_id: WorkflowId) -> WorkflowId:
        # The server names the parent only, on the instance, and nothing of it on a polled task.
        found = workflow_id
        for _ in range(_DEEPEST_SUB_WORKFLOW):
            parent = self._parent_of(found)
            if parent is None:
                return found
            found = parent
        raise OrchestratorError(
            f"workflow {workflow_id} is over {_DEEPEST_SUB_WORKFLOW} sub-workflows deep",
            hint="look for a workflow that starts itself",
        )

    def workflows(self, *, limit: int = 50, name: str | None = None) -> list[WorkflowState]:
        # The search shows no tasks.
        found = []
        for one in self.workflow_ids(limit=limit, name=name):
            try:
                found.append(self.workflow(one))
            except OrchestratorError as error:
                if type(error) is not OrchestratorError:
                    raise
                # What cannot be read of one instance hides no other.
                _log.warning("a workflow instance is left out: %s", error.message)
        return found

    def workflow_ids(
        self, *, limit: int, unfinished: bool = False, name: str | None = None
    ) -> list[WorkflowId]:
        asked = Asked(what="list the workflows")
        conditions = [_UNFINISHED] if unfinished else []
        if name is not None:
            conditions.append(f"workflowType IN ({name})")
        wanted: Query = {"query": " AND ".join(conditions)} if conditions else {}
        newest: list[WorkflowId] = []
        seen: set[WorkflowId] = set()
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
            ids = [WorkflowId(Record(one, asked).text("workflowId")) for one in page]
            # A page of none but known ones: a server that always answers the first.
            if seen.issuperset(ids):
                break
            seen.update(ids)
            newest += ids
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

    def _read_parent(self, workflow_id: WorkflowId) -> WorkflowId | None:
        asked = _asked_of_workflow("look at", workflow_id)
        path, query = _workflow_path(workflow_id), {"includeTasks": "false"}
        found = as_object(self._api.read(path, asked, query=query), asked)
        parent = Record(found, asked).optional_text("parentWorkflowId")
        return WorkflowId(parent) if parent is not None else None

    def _read_owner(self, task_id: TaskId) -> WorkflowId:
        asked = _asked_of_task("look at", task_id)
        found = self._api.read_briefly(f"/tasks/{quote_path(task_id)}", asked)
        return WorkflowId(Record(found, asked).text("workflowInstanceId"))


_LOOK_UP = "look up its id in its workflow instance"


def _require_snapshot(workflow: JsonObject, task_id: TaskId, asked: Asked) -> AttemptSnapshot:
    found = build_snapshot(workflow, task_id, asked)
    if found is None:
        raise NotFoundInOrchestratorError(asked.missing, hint=_LOOK_UP)
    return found


def _workflow_path(workflow_id: WorkflowId) -> str:
    return f"/workflow/{quote_path(workflow_id)}"


def _asked_of_task(verb: str, task_id: TaskId, workflow_id: WorkflowId | None = None) -> Asked:
    names = (task_id,) if workflow_id is None else (task_id, workflow_id)
    return Asked(
        what=f"{verb} task {task_id}", missing=f"there is no task {task_id!r}", names=names
    )


def _asked_of_workflow(verb: str, workflow_id: WorkflowId) -> Asked:
    missing = f"there is no workflow instance {workflow_id!r}"
    return Asked(what=f"{verb} workflow {workflow_id}", missing=missing, names=(workflow_id,))

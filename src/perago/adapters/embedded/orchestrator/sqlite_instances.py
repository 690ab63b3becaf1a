"""Instances as rows of SQLite.

Invariant: what is loaded equals what was saved, to the microsecond.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import overload

from perago.adapters.embedded.orchestrator import sql
from perago.adapters.embedded.orchestrator.database import Database
from perago.adapters.embedded.orchestrator.engine.deadlines import plan_wake_up
from perago.adapters.embedded.orchestrator.engine.definitions import StepType, WorkflowDefinition
from perago.adapters.embedded.orchestrator.engine.instance import Instance, TaskRecord
from perago.adapters.embedded.orchestrator.engine.parsing import parse_workflow_definition
from perago.adapters.embedded.orchestrator.instance_store import KeptClock
from perago.domain.attempt import AttemptStatus
from perago.domain.ids import TaskId, WorkflowId
from perago.domain.outcome import JsonObject
from perago.domain.workflow import LogLine, WorkflowStatus

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Cell = str | int | None


class SqliteInstances:
    """The `InstanceStore` in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def reading(self) -> AbstractContextManager[None]:
        return self._database.reading()

    def writing(self) -> AbstractContextManager[None]:
        return self._database.writing()

    def clock(self) -> KeptClock | None:
        row = self._execute(sql.SELECT_CLOCK, ()).fetchone()
        if row is None:
            return None
        return KeptClock(boot=row["boot"], offset_microseconds=row["offset"])

    def put_clock(self, clock: KeptClock) -> None:
        self._execute(sql.PUT_CLOCK, (clock.boot, clock.offset_microseconds))

    def put_task_definition(self, name: str, source: JsonObject) -> None:
        self._execute(sql.PUT_TASK_DEFINITION, (name, _to_text(source)))

    def task_definition(self, name: str) -> JsonObject | None:
        row = self._execute(sql.SELECT_TASK_DEFINITION, (name,)).fetchone()
        return _from_text(row["source"]) if row is not None else None

    def put_workflow_definition(self, name: str, version: int, source: JsonObject) -> None:
        self._execute(sql.PUT_WORKFLOW_DEFINITION, (name, version, _to_text(source)))

    def workflow_definition(self, name: str, version: int | None) -> JsonObject | None:
        wanted = {"name": name, "version": version}
        row = self._execute(sql.SELECT_WORKFLOW_DEFINITION, wanted).fetchone()
        return _from_text(row["source"]) if row is not None else None

    def add(self, instance: Instance) -> None:
        fixed: dict[str, Cell] = {
            "source": _to_text(instance.definition.source),
            "input": _to_text(instance.input),
        }
        self._execute(sql.INSERT_INSTANCE, fixed | _encode_progress(instance))
        for record in instance.tasks:
            self._execute(sql.PUT_ATTEMPT, _encode_record(instance.id, record))

    def update(self, before: Instance, after: Instance) -> None:
        if after == before:
            return
        self._execute(sql.UPDATE_INSTANCE, _encode_progress(after))
        kept = {record.seq: record for record in before.tasks}
        for record in after.tasks:
            if kept.get(record.seq) != record:
                self._execute(sql.PUT_ATTEMPT, _encode_record(after.id, record))

    def instance(self, workflow_id: WorkflowId) -> Instance | None:
        row = self._execute(sql.SELECT_INSTANCE, (workflow_id,)).fetchone()
        if row is None:
            return None
        attempts = self._execute(sql.SELECT_ATTEMPTS, (row["number"],)).fetchall()
        return _decode_instance(row, attempts)

    def owner_of(self, task_id: TaskId) -> WorkflowId | None:
        row = self._execute(sql.SELECT_OWNER, (task_id,)).fetchone()
        return WorkflowId(row["id"]) if row is not None else None

    def newest(self, limit: int, *, unfinished: bool, name: str | None) -> list[WorkflowId]:
        statement = sql.SELECT_NEWEST_UNFINISHED if unfinished else sql.SELECT_NEWEST
        rows = self._execute(statement, {"name": name, "limit": limit})
        return [WorkflowId(row["id"]) for row in rows]

    def due(self, now: datetime) -> WorkflowId | None:
        row = self._execute(sql.SELECT_DUE, (_to_number(now),)).fetchone()
        return WorkflowId(row["id"]) if row is not None else None

    def next_available(
        self, task_names: Sequence[str], now: datetime
    ) -> tuple[WorkflowId, TaskId] | None:
        wanted: dict[str, Cell] = {
            "task_names": json.dumps(list(task_names)),
            "now": _to_number(now),
        }
        row = self._execute(sql.SELECT_NEXT_AVAILABLE, wanted).fetchone()
        return (WorkflowId(row["id"]), TaskId(row["task_id"])) if row is not None else None

    def count_in_progress(self, task_name: str) -> int:
        return int(self._execute(sql.COUNT_IN_PROGRESS, (task_name,)).fetchone()[0])

    def count_started_since(self, task_name: str, since: datetime) -> int:
        wanted = (task_name, _to_number(since))
        return int(self._execute(sql.COUNT_STARTED_SINCE, wanted).fetchone()[0])

    def append_log(self, task_id: TaskId, line: LogLine) -> None:
        self._execute(sql.INSERT_LOG_LINE, (task_id, _to_number(line.at), line.text))

    def log(self, task_id: TaskId) -> list[LogLine]:
        rows = self._execute(sql.SELECT_LOG, (task_id,))
        return [LogLine(at=_to_moment(row["at"]), text=row["line"]) for row in rows]

    def _execute(self, statement: str, values: Sequence[Cell] | dict[str, Cell]) -> sqlite3.Cursor:
        return self._database.connection.execute(statement, values)


def _encode_progress(instance: Instance) -> dict[str, Cell]:
    """What changes while an instance runs."""
    return {
        "id": instance.id,
        "started_at": _to_number(instance.started_at),
        "status": instance.status.value,
        "output": _to_text(instance.output),
        "reason": instance.reason,
        "ended_at": _to_number(instance.ended_at),
        "wake_up_at": _to_number(plan_wake_up(instance)),
    }


def _decode_instance(row: sqlite3.Row, attempts: list[sqlite3.Row]) -> Instance:
    return Instance(
        id=WorkflowId(row["id"]),
        definition=_parse_source(row["source"]),
        status=WorkflowStatus(row["status"]),
        input=_from_text(row["input"]),
        output=_from_text(row["output"]),
        reason=row["reason"],
        started_at=_to_moment(row["started_at"]),
        ended_at=_to_moment(row["ended_at"]),
        tasks=tuple(_decode_record(attempt) for attempt in attempts),
    )


def _encode_record(workflow_id: WorkflowId, record: TaskRecord) -> dict[str, Cell]:
    return {
        "instance_id": workflow_id,
        "seq": record.seq,
        "task_id": record.task_id,
        "reference_name": record.reference_name,
        "task_name": record.task_name,
        "task_type": record.task_type.value,
        "status": record.status.value,
        "input": _to_text(record.input),
        "output": _to_text(record.output),
        "retry_count": record.retry_count,
        "retried_task_id": record.retried_task_id,
        "worker_id": record.worker_id,
        "poll_count": record.poll_count,
        "reason": record.reason,
        "scheduled_at": _to_number(record.scheduled_at),
        "available_at": _to_number(record.available_at),
        "started_at": _to_number(record.started_at),
        "updated_at": _to_number(record.updated_at),
        "ended_at": _to_number(record.ended_at),
        "wait_until": _to_number(record.wait_until),
    }


def _decode_record(row: sqlite3.Row) -> TaskRecord:
    return TaskRecord(
        seq=row["seq"],
        task_id=TaskId(row["task_id"]),
        reference_name=row["reference_name"],
        task_name=row["task_name"],
        task_type=StepType(row["task_type"]),
        status=AttemptStatus(row["status"]),
        input=_from_text(row["input"]),
        output=_from_text(row["output"]),
        retry_count=row["retry_count"],
        retried_task_id=row["retried_task_id"],
        worker_id=row["worker_id"],
        poll_count=row["poll_count"],
        reason=row["reason"],
        scheduled_at=_to_moment(row["scheduled_at"]),
        available_at=_to_moment(row["available_at"]),
        started_at=_to_moment(row["started_at"]),
        updated_at=_to_moment(row["updated_at"]),
        ended_at=_to_moment(row["ended_at"]),
        wait_until=_to_moment(row["wait_until"]),
    )


@lru_cache(maxsize=64)
def _parse_source(text: str) -> WorkflowDefinition:
    """Parsed once per definition, not once per look at an instance of it."""
    return parse_workflow_definition(_from_text(text))


def _to_text(value: JsonObject) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _from_text(text: str) -> JsonObject:
    value: JsonObject = json.loads(text)
    return value


@overload
def _to_number(moment: datetime) -> int: ...
@overload
def _to_number(moment: None) -> None: ...
def _to_number(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // _MICROSECOND


@overload
def _to_moment(number: int) -> datetime: ...
@overload
def _to_moment(number: None) -> None: ...
def _to_moment(number: int | None) -> datetime | None:
    return None if number is None else _EPOCH + number * _MICROSECOND

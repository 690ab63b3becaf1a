"""The benchmarks' own client of a Conductor server: queues tasks and reads what became of them.

Invariant: it is nobody's contestant. All who are measured have the same tasks from it, and what it
reads while they work costs all of them the same.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from perago.adapters.servers import ThrowawayConductor, find_conductor, throwaway_conductor
from perago.domain.errors import EnvironmentUnfitError
from perago.settings import resolve_settings

OWNER = "bench@example.com"
_THREADS = 4

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """What the server says of an attempt; moments in seconds since the epoch."""

    status: str
    scheduled: float
    started: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRecord:
    """What the server says of a workflow instance."""

    status: str
    output: dict[str, Any]
    tasks: list[TaskRecord]


@contextmanager
def start_conductor(directory: Path) -> Iterator[ThrowawayConductor]:
    """A server for the length of a benchmark."""
    cache = resolve_settings().settings.cache_directory
    program = find_conductor(cache=cache, environment=os.environ)
    if program is None:
        raise EnvironmentUnfitError(
            "there is no Conductor server in the cache", hint="run `perago dev build conductor`"
        )
    with throwaway_conductor(directory, program) as server:
        yield server


class Connection:
    """One kept connection to a server; for one thread."""

    def __init__(self, api: str) -> None:
        parts = urlsplit(api)
        self._base = parts.path
        self._http = HTTPConnection(parts.hostname or "", parts.port, timeout=60)

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The answer, parsed where it is JSON."""
        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": "application/json"}
        self._http.request(method, self._base + path, data, headers)
        answer = self._http.getresponse()
        said = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {said[:500]!r}")
        try:
            return json.loads(said) if said else None
        except ValueError:
            return said.decode()


class Conductor:
    """Calls to one server; safe to use from many threads."""

    def __init__(self, api: str) -> None:
        self.api = api
        self._local = threading.local()

    @property
    def _connection(self) -> Connection:
        if not hasattr(self._local, "connection"):
            self._local.connection = Connection(self.api)
        found: Connection = self._local.connection
        return found

    def register(self, task: dict[str, Any], parameters: dict[str, Any]) -> None:
        """A TaskDef, and a workflow of one such task, both of the task's name."""
        name = task["name"]
        self._connection.call("POST", "/metadata/taskdefs", [task])
        step = {
            "name": name,
            "taskReferenceName": "step",
            "type": "SIMPLE",
            "inputParameters": parameters,
        }
        workflow = {
            "name": name,
            "version": 1,
            "schemaVersion": 2,
            "ownerEmail": OWNER,
            "tasks": [step],
            "outputParameters": {"result": "${step.output.result}"},
        }
        self._connection.call("PUT", "/metadata/workflow", [workflow])

    def start(self, name: str, workflow_input: dict[str, Any]) -> str:
        """Start an instance; its id."""
        request = {"name": name, "version": 1, "input": workflow_input}
        return str(self._connection.call("POST", "/workflow", request))

    def start_many(self, name: str, inputs: Sequence[dict[str, Any]]) -> list[str]:
        """Start so many instances; their ids."""
        return self._side_by_side(lambda one: self.start(name, one), inputs)

    def status(self, instance: str) -> str:
        """How one instance is, in the cheapest way."""
        path = f"/workflow/{instance}?includeTasks=false"
        return str(self._connection.call("GET", path)["status"])

    def read(self, instance: str) -> InstanceRecord:
        """What became of one instance."""
        found = self._connection.call("GET", f"/workflow/{instance}")
        return InstanceRecord(
            status=found["status"],
            output=found.get("output") or {},
            tasks=[
                TaskRecord(
                    status=task["status"],
                    scheduled=task["scheduledTime"] / 1000,
                    started=task["startTime"] / 1000,
                    ended=task["endTime"] / 1000,
                )
                for task in found["tasks"]
            ],
        )

    def read_many(self, instances: Sequence[str]) -> list[InstanceRecord]:
        """What became of each."""
        return self._side_by_side(self.read, instances)

    def queued(self, task_name: str) -> int:
        """How many tasks of a name wait to be polled."""
        sizes = self._connection.call("GET", f"/tasks/queue/sizes?taskType={quote(task_name)}")
        return int(sizes.get(task_name, 0))

    def _side_by_side(self, call: Callable[[T], R], values: Iterable[T]) -> list[R]:
        with ThreadPoolExecutor(_THREADS) as threads:
            return list(threads.map(call, values))

"""Measures one contestant: a full queue, or single tasks while it is idle.

The queue is filled before the worker starts, since filling it takes the server longer than emptying
it. Only the middle of the run counts, so that neither the start of a worker nor its last tasks do:
the rate comes from the server's own record of when each task ended, the processor time from samples
taken meanwhile, four a second, for every contestant alike.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from bench.conductor import Conductor, InstanceRecord
from bench.dispatch.contestants import Contestant
from bench.process_tree import ProcessTree, run_tree

FIRST, LAST = 0.1, 0.9
"""The part of the tasks between which is measured."""

_SAMPLE_SECONDS = 0.25
_PATIENCE_SECONDS = 600.0
_WARM_UP_TASKS = 5
_SETTLE_SECONDS = 4.0
_LOOK_SECONDS = 0.003


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """A full queue: what one contestant did, and what each task cost it and the server."""

    contestant: str
    round: int
    tasks_per_second: float
    cpu_ms_per_task: float
    server_cpu_ms_per_task: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Idleness:
    """An idle worker: what it costs, and how soon it has done a task that comes.

    `seen_ms` is from the answer to the start until the client saw the end; `wait_ms` is how long
    the task waited for a poll, and `done_ms` until its end, by the server's clock.
    """

    contestant: str
    round: int
    idle_cpu_percent: float
    seen_ms: list[float]
    wait_ms: list[float]
    done_ms: list[float]


@dataclass(frozen=True, slots=True)
class _Sample:
    left: int
    cpu_seconds: float
    server_cpu_seconds: float


class Contest:
    """Measures on one server."""

    def __init__(self, conductor: Conductor, server_pid: int, place: Path) -> None:
        self._conductor = conductor
        self._server = psutil.Process(server_pid)
        self._place = place

    def empty_queue(self, contestant: Contestant, count: int, number: int) -> Throughput:
        """Queue so many tasks, and have one contestant do them all."""
        inputs = [{"number": one} for one in range(count)]
        instances = self._conductor.start_many(contestant.task_name, inputs)
        with self._run(contestant, f"queue-{number}") as tree:
            samples = self._watch(contestant, tree)
            records = self._await_end(instances, tree)
        ends = sorted(_check(record, one) for one, record in enumerate(records))
        first, last = int(count * FIRST), int(count * LAST)
        begin, end = _middle(samples, count)
        done = begin.left - end.left
        server = end.server_cpu_seconds - begin.server_cpu_seconds
        return Throughput(
            contestant=contestant.name,
            round=number,
            tasks_per_second=(last - first) / (ends[last] - ends[first]),
            cpu_ms_per_task=1000 * (end.cpu_seconds - begin.cpu_seconds) / done,
            server_cpu_ms_per_task=1000 * server / done,
        )

    def watch_idle(
        self, contestant: Contestant, count: int, idle_seconds: float, number: int
    ) -> Idleness:
        """Leave a worker alone, then give it one task after another, each when it is idle."""
        with self._run(contestant, f"idle-{number}") as tree:
            for one in range(_WARM_UP_TASKS):
                self._time_one(contestant, one, tree)
            time.sleep(_SETTLE_SECONDS)
            before, began = tree.cpu_seconds, time.monotonic()
            time.sleep(idle_seconds)
            used = (tree.cpu_seconds - before) / (time.monotonic() - began)
            seen, instances = [], []
            for one in range(count):
                # Not in step with whatever rhythm the worker polls in.
                time.sleep(random.uniform(0.5, 1.5))
                instance, seconds = self._time_one(contestant, one, tree)
                instances.append(instance)
                seen.append(1000 * seconds)
        tasks = [record.tasks[-1] for record in self._conductor.read_many(instances)]
        return Idleness(
            contestant=contestant.name,
            round=number,
            idle_cpu_percent=100 * used,
            seen_ms=seen,
            wait_ms=[1000 * (task.started - task.scheduled) for task in tasks],
            done_ms=[1000 * (task.ended - task.scheduled) for task in tasks],
        )

    def _run(self, contestant: Contestant, name: str) -> AbstractContextManager[ProcessTree]:
        log = self._place / f"{contestant.name}-{name}.log"
        return run_tree(contestant.command, log=log, environment=contestant.environment)

    def _watch(self, contestant: Contestant, tree: ProcessTree) -> list[_Sample]:
        samples: list[_Sample] = []

        def is_empty() -> bool:
            left = self._conductor.queued(contestant.task_name)
            server = self._server.cpu_times()
            samples.append(_Sample(left, tree.cpu_seconds, server.user + server.system))
            return left == 0

        _wait_until(is_empty, tree, _SAMPLE_SECONDS)
        return samples

    def _await_end(self, instances: Sequence[str], tree: ProcessTree) -> list[InstanceRecord]:
        time.sleep(1.0)
        for instance in instances:
            _wait_until(partial(self._is_over, instance), tree, _SAMPLE_SECONDS)
        return self._conductor.read_many(instances)

    def _is_over(self, instance: str) -> bool:
        return self._conductor.status(instance) != "RUNNING"

    def _time_one(
        self, contestant: Contestant, number: int, tree: ProcessTree
    ) -> tuple[str, float]:
        instance = self._conductor.start(contestant.task_name, {"number": number})
        began = time.perf_counter()
        _wait_until(lambda: self._is_over(instance), tree, _LOOK_SECONDS)
        return instance, time.perf_counter() - began


def _wait_until(is_so: Callable[[], bool], tree: ProcessTree, pause: float) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while not is_so():
        tree.require_alive()
        if time.monotonic() > end:
            raise RuntimeError(f"the worker does not get on; see {tree.log}")
        time.sleep(pause)


def _check(record: InstanceRecord, number: int) -> float:
    """When the one attempt ended, which must have done its work."""
    if record.status != "COMPLETED" or len(record.tasks) != 1:
        raise RuntimeError(f"task {number}: {record}")
    if record.output.get("result") != {"number": number}:
        raise RuntimeError(f"task {number} has another task's result: {record.output}")
    return record.tasks[0].ended


def _middle(samples: Sequence[_Sample], count: int) -> tuple[_Sample, _Sample]:
    inside = [s for s in samples if count * (1 - LAST) <= s.left <= count * (1 - FIRST)]
    if len(inside) < 3:
        raise RuntimeError("it was over too soon to be measured; queue more with --tasks")
    return inside[0], inside[-1]


def median_of(values: Sequence[float]) -> float:
    """The median; the one word for what counts here."""
    return statistics.median(values)

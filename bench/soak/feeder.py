"""Keeps a steady mix of tasks coming, and sees to it that each ends as it should."""

import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from bench.conductor import Conductor
from bench.soak import tasks
from perago.authoring import build_task_definition
from perago.bootstrap import Application
from perago.domain.ids import BranchName, RepositoryName

REPOSITORY, MAIN = RepositoryName("soak"), BranchName("main")

_ANSWERS_A_SECOND = 4
_ANSWERS_FOR_EACH_FAILURE = 10
_DUE_SECONDS = 60.0
_LOOK_SECONDS = 0.05
COMPLETED, FAILED = "COMPLETED", "FAILED"


@dataclass(frozen=True, slots=True)
class _Started:
    instance: str
    expected: str
    due: float


class Feeder:
    """Two threads: one that starts tasks by the clock, one that writes, one after another."""

    def __init__(
        self, conductor: Conductor, application: Application, death_seconds: float
    ) -> None:
        self.begun: Counter[str] = Counter()
        """How many of each kind were started."""
        self.error: BaseException | None = None
        self._conductor = conductor
        self._store = application.store
        self._death_seconds = death_seconds
        self._stop = threading.Event()
        self._deaths_wanted = threading.Event()
        self._threads = [
            threading.Thread(target=self._guard, args=(work,), daemon=True)
            for work in (self._feed, self._write)
        ]

    def start(self) -> None:
        """Register the tasks, make the workspace, and begin."""
        for task in (tasks.answer, tasks.write, tasks.fail, tasks.die):
            parameters: dict[str, object] = {"params": {"number": "${workflow.input.number}"}}
            if task.workspace is not None:
                parameters["workspace"] = "${workflow.input.workspace}"
            self._conductor.register(build_task_definition(task), parameters)
        self._store.create_repository(REPOSITORY, branch=MAIN)
        for thread in self._threads:
            thread.start()

    def let_die(self, is_wanted: bool) -> None:
        """Whether tasks that kill their executor come now."""
        if is_wanted:
            self._deaths_wanted.set()
        else:
            self._deaths_wanted.clear()

    def stop(self) -> None:
        """Start nothing more, and wait for what is under way."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told by the one who watches
            self.error = error

    def _feed(self) -> None:
        started: deque[_Started] = deque()
        last_death = 0.0
        for number in itertools.count():
            started.append(self._begin(tasks.answer.name, number, COMPLETED))
            if number % _ANSWERS_FOR_EACH_FAILURE == 0:
                started.append(self._begin(tasks.fail.name, number, FAILED))
            now = time.monotonic()
            if self._deaths_wanted.is_set() and now - last_death > self._death_seconds:
                started.append(self._begin(tasks.die.name, number, COMPLETED))
                last_death = now
            while started and started[0].due < now:
                self._check(started.popleft())
            if self._stop.wait(1 / _ANSWERS_A_SECOND):
                break
        for one in started:
            self._await(one)

    def _write(self) -> None:
        """Writers of one branch are serial: the next one begins where the last one ended."""
        number = 0
        while not self._stop.wait(1.0):
            workspace = {
                "repository": REPOSITORY,
                "branch": MAIN,
                "ref_type": "commit",
                "ref": self._store.head(REPOSITORY, MAIN).id,
            }
            number += 1
            self._await(self._begin(tasks.write.name, number, COMPLETED, workspace=workspace))

    def _begin(self, name: str, number: int, expected: str, **also: object) -> _Started:
        instance = self._conductor.start(name, {"number": number, **also})
        self.begun[name] += 1
        return _Started(instance, expected, time.monotonic() + _DUE_SECONDS)

    def _await(self, started: _Started) -> None:
        end = started.due + _DUE_SECONDS
        while self._conductor.status(started.instance) == "RUNNING" and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
        self._check(started)

    def _check(self, started: _Started) -> None:
        status = self._conductor.status(started.instance)
        if status != started.expected:
            raise RuntimeError(f"{started.instance} is {status}, not {started.expected}")

"""A real supervisor with real executor processes on an embedded home."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from perago.app.follow import RunRequest, start_run
from perago.authoring import load_pipeline
from perago.bootstrap import Application, ExecutorFactory, Worker, open_worker
from perago.domain.attempt import Attempt
from perago.domain.events import AttemptStarted, Event, EventHandler, ExecutorDied, Progressed
from perago.domain.ids import BranchName, RepositoryName, WorkflowId
from perago.domain.outcome import JsonObject
from perago.domain.workflow import WorkflowState

TROUBLE = Path(__file__).parents[1] / "acceptance" / "pipelines" / "trouble.py"
REPOSITORY = RepositoryName("trouble")
MAIN = BranchName("main")


@dataclass(slots=True)
class Recorder:
    """Remembers what a supervisor says."""

    started: list[Attempt] = field(default_factory=list)
    died: list[str] = field(default_factory=list)
    progress: list[str] = field(default_factory=list)

    def handle(self, event: Event) -> None:
        match event:
            case AttemptStarted():
                self.started.append(event.attempt)
            case Progressed(message=message):
                self.progress.append(message)
            case ExecutorDied(how=how):
                self.died.append(how)
            case _:
                pass


@dataclass(slots=True, kw_only=True)
class Bench:
    """An embedded home with one repository, and the means to run a pipeline on it."""

    application: Application
    pipelines: Path = TROUBLE
    recorder: Recorder = field(default_factory=Recorder)

    def start(self, name: str, params: JsonObject | None = None) -> WorkflowId:
        return start_run(
            RunRequest(
                pipeline=load_pipeline(f"{self.pipelines}:{name}", self.pipelines.parent),
                params=params or {},
                repository=REPOSITORY,
                branch=MAIN,
            ),
            store=self.application.store,
            orchestrator=self.application.orchestrator,
        )

    def work(self, name: str, workflow: WorkflowId, meddle: Callable[[Worker], None]) -> None:
        """Supervise until the workflow is over, while `meddle` runs in a thread."""
        pipeline = load_pipeline(f"{self.pipelines}:{name}", self.pipelines.parent)
        factory = ExecutorFactory(
            settings=self.application.settings,
            targets=(str(self.pipelines),),
            search_path=self.pipelines.parent,
        )
        with open_worker(self.application, pipeline.tasks, factory, self.recorder) as worker:
            meddler = threading.Thread(target=meddle, args=(worker,))
            meddler.start()
            worker.supervisor.run(lambda: self.state(workflow).status.is_terminal)
            meddler.join()

    def work_on_all(
        self, names: Sequence[str], workflows: Sequence[WorkflowId], events: EventHandler
    ) -> None:
        """Supervise until all workflows are over."""
        loaded = [
            load_pipeline(f"{self.pipelines}:{name}", self.pipelines.parent) for name in names
        ]
        factory = ExecutorFactory(
            settings=self.application.settings,
            targets=(str(self.pipelines),),
            search_path=self.pipelines.parent,
        )
        waiting = list(workflows)

        def is_done() -> bool:
            while waiting and self.state(waiting[-1]).status.is_terminal:
                waiting.pop()
            return not waiting

        tasks = [task for pipeline in loaded for task in pipeline.tasks]
        with open_worker(self.application, tasks, factory, events) as worker:
            worker.supervisor.run(is_done)

    def run(self, name: str, params: JsonObject | None = None) -> WorkflowState:
        workflow = self.start(name, params)
        self.work(name, workflow, lambda _: None)
        return self.state(workflow)

    def state(self, workflow: WorkflowId) -> WorkflowState:
        return self.application.orchestrator.workflow(workflow)

    def log_of(self, workflow: WorkflowId, step: str) -> str:
        logs = self.application.settings.logs_directory / workflow
        (path,) = logs.glob(f"{step}.*.log")
        return path.read_text(encoding="utf-8", errors="replace")


def wait_for(path: Path) -> None:
    ends = time.monotonic() + 60
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < ends, f"{path.name} never appeared"
        time.sleep(0.02)


def assert_gone(pids: Path) -> None:
    """The processes end; a kill takes a moment to arrive on a busy machine."""
    ends = time.monotonic() + 30
    for pid in map(int, pids.read_text().split()):
        while is_running(pid):
            assert time.monotonic() < ends, f"process {pid} still runs"
            time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

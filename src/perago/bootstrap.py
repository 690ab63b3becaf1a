"""The only place where ports meet adapters."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from perago.adapters.embedded.orchestrator import EmbeddedOrchestrator
from perago.adapters.embedded.store import Durability, EmbeddedWorkspaceStore
from perago.adapters.localfs.clock import SystemClock
from perago.adapters.localfs.directories import LocalAttemptDirectories
from perago.adapters.localfs.guardrails import LocalGuardrailEvaluator
from perago.adapters.localfs.home import make_home, make_logs_directory, require_home
from perago.adapters.localfs.root_lock import WorkspaceRootLock
from perago.adapters.localfs.scan import scan_directory
from perago.adapters.localfs.tree_index import TreeIndex
from perago.adapters.spark import LocalSparkSessions, SparkSettings
from perago.adapters.spark.gateway import require_pyspark
from perago.adapters.spark.java import find_java
from perago.app.attempt_ports import AttemptPorts
from perago.authoring import AnyTask, Declarations, load_targets
from perago.domain.budget import heartbeat_interval_of, merge_timeout_of
from perago.domain.ids import WorkerId
from perago.ports import Clock, Fencing, LocalTree
from perago.runtime.events import WorkerEvents
from perago.runtime.executor import ExecutorKit
from perago.runtime.failpoints import RuleFailpoints, parse_failpoints
from perago.runtime.isolation import ProcessIsolation
from perago.runtime.supervisor import Supervisor, SupervisorOptions
from perago.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What the commands work with."""

    settings: Settings
    clock: Clock
    store: EmbeddedWorkspaceStore
    orchestrator: EmbeddedOrchestrator


@contextmanager
def open_application(settings: Settings, *, create: bool = False) -> Iterator[Application]:
    """Build the clients of this process and close them afterwards.

    Unless asked to create it, the home must exist.
    """
    if create:
        make_home(settings.home)
    else:
        require_home(settings.home)
    clock = SystemClock()
    with ExitStack() as stack:
        store = stack.enter_context(
            EmbeddedWorkspaceStore(settings.home, clock, durability=Durability(settings.durability))
        )
        orchestrator = stack.enter_context(EmbeddedOrchestrator(settings.home, clock))
        yield Application(settings=settings, clock=clock, store=store, orchestrator=orchestrator)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedExecutorFactory:
    """Builds an executor's own clients inside its process; pickles as plain settings."""

    settings: Settings
    targets: tuple[str, ...]
    search_path: Path

    def __call__(self, number: int) -> ExecutorKit:
        """Load the tasks and open everything that an attempt needs."""
        settings = self.settings
        clock = SystemClock()
        declarations = load_targets(self.targets, self.search_path)
        scratch = settings.attempts_root / "spark" / f"executor-{number}"
        ports = AttemptPorts(
            store=EmbeddedWorkspaceStore(
                settings.home, clock, durability=Durability(settings.durability)
            ),
            orchestrator=EmbeddedOrchestrator(settings.home, clock),
            directories=LocalAttemptDirectories(settings.attempts_root),
            guardrails=LocalGuardrailEvaluator(),
            spark=LocalSparkSessions(
                spark_settings(settings),
                scratch,
                executor_log=settings.logs_directory / f"executor-{number}.log",
                executors=settings.executors,
            ),
            isolation=ProcessIsolation(),
            clock=clock,
            failpoints=RuleFailpoints(parse_failpoints(settings.failpoints)),
        )
        return ExecutorKit(
            tasks={task.name: task for task in tasks_of(declarations)},
            ports=ports,
            replace_unlabelled=settings.replace_unlabelled,
            log_level=settings.log_level,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A supervisor that holds its workspace root."""

    supervisor: Supervisor
    worker_id: WorkerId
    lock: WorkspaceRootLock

    def is_dead(self, worker_id: WorkerId) -> bool:
        """Whether a worker is an earlier one of this root: the lock proves that it is gone."""
        return worker_id != self.worker_id and self.lock.ran_here(worker_id)


@contextmanager
def open_worker(
    application: Application,
    tasks: Sequence[AnyTask],
    factory: EmbeddedExecutorFactory,
    events: WorkerEvents,
) -> Iterator[Worker]:
    """Take the workspace root, sweep what earlier supervisors left, and build a supervisor."""
    settings = application.settings
    directories = LocalAttemptDirectories(settings.attempts_root)
    make_logs_directory(settings.logs_directory)
    with WorkspaceRootLock(settings.attempts_root) as lock:
        directories.sweep()
        worker_id = lock.new_worker_id()
        options = SupervisorOptions(
            worker_id=worker_id,
            executors=settings.executors,
            heartbeats={t.name: heartbeat_interval_of(t.controls.publish_budget) for t in tasks},
            merge_timeouts={t.name: merge_timeout_of(t.controls.publish_budget) for t in tasks},
            logs_directory=settings.logs_directory,
            death_limit=settings.executor_death_limit,
            shutdown_grace_seconds=settings.shutdown_grace_seconds,
            publish_may_outlive_executor=application.store.fencing is Fencing.SOFT,
        )
        supervisor = Supervisor(
            options,
            orchestrator=application.orchestrator,
            directories=directories,
            clock=application.clock,
            factory=factory,
            events=events,
        )
        yield Worker(supervisor=supervisor, worker_id=worker_id, lock=lock)


def tasks_of(declarations: Declarations) -> list[AnyTask]:
    """Every task that the targets declare or use in a pipeline, once each."""
    found = {task.name: task for task in declarations.tasks}
    for pipeline in declarations.pipelines:
        found.update({task.name: task for task in pipeline.tasks})
    return list(found.values())


def spark_settings(settings: Settings) -> SparkSettings:
    """The Spark part of the settings, as its adapter takes it."""
    return SparkSettings(
        master=settings.spark_master,
        cores=settings.spark_cores,
        memory_mb=settings.spark_memory_mb,
        conf=dict(settings.spark_conf),
    )


def describe_spark() -> str:
    """The Spark and the Java that tasks get; `EnvironmentUnfitError` where either is missing."""
    require_pyspark()
    java = find_java(os.environ)
    return f"pyspark {importlib.metadata.version('pyspark')}, Java {java.version} in {java.home}"


def scan_tree(directory: Path) -> LocalTree:
    """The files of any directory, hashed; for imports."""
    return scan_directory(directory, TreeIndex())

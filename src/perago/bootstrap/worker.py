"""A supervisor that holds its workspace root, and what its executors are built from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from perago.adapters.embedded.orchestrator import EmbeddedOrchestrator
from perago.adapters.localfs.clock import SystemClock
from perago.adapters.localfs.directories import LocalAttemptDirectories
from perago.adapters.localfs.guardrails import LocalGuardrailEvaluator
from perago.adapters.localfs.home import make_logs_directory
from perago.adapters.localfs.root_lock import WorkspaceRootLock
from perago.adapters.spark import LocalSparkSessions
from perago.app.attempt_policy import AttemptPolicy
from perago.app.attempt_ports import AttemptPorts
from perago.authoring import AnyTask, Declarations, load_targets
from perago.bootstrap.application import Application
from perago.bootstrap.machine import spark_settings
from perago.bootstrap.stores import open_store
from perago.domain.budget import heartbeat_interval_of, merge_timeout_of
from perago.domain.ids import WorkerId
from perago.ports import Fencing
from perago.runtime.events import WorkerEvents
from perago.runtime.executor import ExecutorKit
from perago.runtime.failpoints import RuleFailpoints, parse_failpoints
from perago.runtime.isolation import ProcessIsolation
from perago.runtime.supervisor import Supervisor, SupervisorOptions
from perago.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorFactory:
    """Builds an executor's own clients inside its process; pickles as plain settings.

    They go through a pipe: a secret is never on a command line.
    """

    settings: Settings
    targets: tuple[str, ...]
    search_path: Path

    def __call__(self, number: int) -> ExecutorKit:
        """Load the tasks and open everything that an attempt needs."""
        settings = self.settings
        clock = SystemClock()
        declarations = load_targets(self.targets, self.search_path)
        ports = AttemptPorts(
            store=open_store(settings, clock, ExitStack()),  # closed with the process
            orchestrator=EmbeddedOrchestrator(settings.home, clock),
            directories=LocalAttemptDirectories(settings.attempts_root),
            guardrails=LocalGuardrailEvaluator(),
            spark=self._spark_sessions(number),
            isolation=ProcessIsolation(),
            clock=clock,
            failpoints=RuleFailpoints(parse_failpoints(settings.failpoints)),
        )
        return ExecutorKit(
            tasks={task.name: task for task in tasks_of(declarations)},
            ports=ports,
            policy=AttemptPolicy(
                replace_unlabelled=settings.replace_unlabelled,
                keep_failed_staging=settings.keep_failed_staging,
            ),
            log_level=settings.log_level,
        )

    def _spark_sessions(self, number: int) -> LocalSparkSessions:
        settings = self.settings
        return LocalSparkSessions(
            spark_settings(settings),
            settings.attempts_root / "spark" / f"executor-{number}",
            executor_log=settings.logs_directory / f"executor-{number}.log",
            executors=settings.executors,
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
    factory: ExecutorFactory,
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

"""A supervisor that holds its workspace root, and what its executors are built from."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from perago.adapters.environment import hidden_environment
from perago.adapters.guardrails import LocalGuardrailEvaluator
from perago.adapters.localfs.clock import SystemClock
from perago.adapters.localfs.directories import LocalAttemptDirectories
from perago.adapters.localfs.home import make_logs_directory
from perago.adapters.localfs.root_lock import WorkspaceRootLock
from perago.adapters.progress import Progress
from perago.adapters.spark import SparkGuardrailEvaluator
from perago.app.attempt_policy import AttemptPolicy
from perago.app.attempt_ports import AttemptPorts
from perago.app.confirm_report import explain_unconfirmed
from perago.authoring import AnyTask, Declarations, WorkspaceKind, load_targets, parse_workspace
from perago.bootstrap.application import Application
from perago.bootstrap.machine import get_jars, open_spark, spark_is_elsewhere
from perago.bootstrap.orchestrators import open_orchestrator
from perago.bootstrap.stores import as_direct_store, describe_store, open_store
from perago.domain.access import Access, decide_access
from perago.domain.attempt import Attempt
from perago.domain.budget import heartbeat_interval_of, merge_timeout_of
from perago.domain.errors import SettingsError
from perago.domain.events import EventHandler
from perago.domain.ids import WorkerId
from perago.domain.outcome import Completed
from perago.domain.redaction import Redactor
from perago.ports import Fencing
from perago.runtime.executor import ExecutorKit
from perago.runtime.failpoints import RuleFailpoints, parse_failpoints
from perago.runtime.isolation import ProcessIsolation
from perago.runtime.log_redaction import redact_log
from perago.runtime.logs import LogStream
from perago.runtime.options import SupervisorOptions
from perago.runtime.reports import Report
from perago.runtime.supervisor import Supervisor, SupervisorPorts
from perago.settings import Settings, redactor_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorFactory:
    """Builds an executor's own clients inside its process; pickles as plain settings.

    They go through a pipe: a secret is never on a command line.
    """

    settings: Settings
    targets: tuple[str, ...]
    search_path: Path
    log_stream: LogStream | None = None
    """Where executors also log to, besides the attempts' own logs."""
    redactor: Redactor = field(init=False)
    """Knows the secrets of the supervisor's environment, too, which executors do not get."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "redactor", redactor_of(self.settings, os.environ))

    def __call__(self, number: int) -> ExecutorKit:
        """Load the tasks and open everything that an attempt needs."""
        settings = self.settings
        clock = SystemClock()
        declarations = load_targets(self.targets, self.search_path)
        until_the_end = ExitStack()  # never closed: the process ends
        store = open_store(settings, clock, until_the_end)
        ports = AttemptPorts(
            store=store,
            orchestrator=open_orchestrator(settings, clock, until_the_end, redactor=self.redactor),
            directories=LocalAttemptDirectories(settings.attempts_root),
            guardrails=LocalGuardrailEvaluator(),
            spark=open_spark(settings, executor=number),
            spark_guardrails=SparkGuardrailEvaluator(),
            isolation=ProcessIsolation(),
            clock=clock,
            failpoints=RuleFailpoints(parse_failpoints(settings.failpoints)),
            direct_store=as_direct_store(settings, store),
        )
        return ExecutorKit(
            tasks={task.name: task for task in tasks_of(declarations)},
            ports=ports,
            policy=AttemptPolicy(
                replace_unlabelled=settings.replace_unlabelled,
                keep_failed_staging=settings.keep_failed_staging,
                leave_report_to_caller=True,
                access=Access(settings.spark_access),
            ),
            log_level=settings.log_level,
            log_stream=self.log_stream,
            most_open_files=settings.attempt_open_files,
            redactor=self.redactor,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A worker that is to end by itself: after so many attempts, or when nothing is left."""

    max_attempts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A supervisor that holds its workspace root; `swept` is what an earlier one left there."""

    supervisor: Supervisor
    worker_id: WorkerId
    lock: WorkspaceRootLock
    swept: tuple[Attempt, ...] = ()

    def is_dead(self, worker_id: WorkerId) -> bool:
        """Whether a worker is an earlier one of this root: the lock proves that it is gone."""
        return worker_id != self.worker_id and self.lock.ran_here(worker_id)


class CommitLookUp:
    """Says why a completed attempt must not be reported: see `app/confirm_report.py`.

    Called from the threads that report.
    """

    def __init__(self, application: Application, tasks: Sequence[AnyTask]) -> None:
        self._application = application
        self._tasks = {task.name: task for task in tasks}
        self._opening = threading.Lock()
        if any(task.workspace is not None and not task.workspace.read_only for task in tasks):
            # Its client takes a moment to load: now, and not between a publication and its report.
            _ = application.store

    def __call__(self, report: Report, completed: Completed) -> str | None:
        """Look up the commit that the output names."""
        polled, execution = report.polled, report.execution
        if polled is None or execution is None:
            return "nobody knows which execution it is about"
        # Only the workspace: a validator of the author's may not say the same twice.
        has_workspace = self._tasks[polled.attempt.task_name].workspace is not None
        workspace = parse_workspace(polled.input) if has_workspace else None
        with self._opening:
            store = self._application.store
        reason = explain_unconfirmed(
            polled.attempt, execution.execution_id, workspace, completed, store=store
        )
        return None if reason is None else f"its executor says that it completed, but {reason}"


@contextmanager
def open_worker(
    application: Application,
    tasks: Sequence[AnyTask],
    factory: ExecutorFactory,
    events: EventHandler,
    *,
    batch: Batch | None = None,
) -> Iterator[Worker]:
    """Take the workspace root, sweep what earlier supervisors left, and build a supervisor."""
    settings = application.settings
    require_files_in_reach(settings, tasks)
    prepare_direct_access(settings, tasks)
    prepare_tables(settings, tasks)
    directories = LocalAttemptDirectories(settings.attempts_root)
    make_logs_directory(settings.logs_directory)
    with (
        hidden_environment(settings.task_environment),
        WorkspaceRootLock(settings.attempts_root) as lock,
    ):
        swept = directories.sweep()
        worker_id = lock.new_worker_id()
        supervisor = Supervisor(
            _supervisor_options(application, tasks, worker_id, batch),
            ports=SupervisorPorts(
                orchestrator=application.impatient_orchestrator,
                directories=directories,
                clock=application.clock,
                check_completed=CommitLookUp(application, tasks),
                redact_log=partial(redact_log, redactor=factory.redactor),
            ),
            factory=factory,
            events=events,
        )
        yield Worker(supervisor=supervisor, worker_id=worker_id, lock=lock, swept=tuple(swept))


def require_files_in_reach(settings: Settings, tasks: Sequence[AnyTask]) -> None:
    """Raise for tasks whose files would be on this machine and whose Spark is elsewhere."""
    if not spark_is_elsewhere(settings) or settings.workspace_root_is_shared:
        return
    blind = [task.name for task in tasks if _needs_shared_files(settings, task)]
    if blind:
        raise SettingsError(
            f"{', '.join(sorted(blind))}: the files would be on this machine, and the machines of "
            f"{settings.spark_address or settings.spark_master} would not see them",
            hint='use direct workspaces (PERAGO_SPARK_ACCESS=direct, or access="direct" on a '
            "SparkWorkspace), or say PERAGO_WORKSPACE_ROOT_IS_SHARED=true where they do",
        )


def prepare_direct_access(settings: Settings, tasks: Sequence[AnyTask]) -> None:
    """Have what direct workspaces need now, and not at the first attempt."""
    if settings.spark_remote is not None:
        # Jars and certificates are the server's own; the first session asks it for them.
        return
    if not any(_access_of(settings, task) is Access.DIRECT for task in tasks):
        return
    options = settings.spark_conf.get("spark.driver.extraJavaOptions", "")
    if settings.lakefs_ca_file is not None and "javax.net.ssl.trustStore" not in options:
        raise SettingsError(
            "direct workspaces reach lakeFS from Java, which does not read lakefs_ca_file",
            hint="put the certificate authority into a Java trust store (keytool -importcert), and "
            "name it in spark_conf: spark.driver.extraJavaOptions and "
            "spark.executor.extraJavaOptions = -Djavax.net.ssl.trustStore=FILE",
        )
    get_jars(settings, os.environ, Progress(say=_log.info))


def prepare_tables(settings: Settings, tasks: Sequence[AnyTask]) -> None:
    """Have the jars of the table format now, and not at the first attempt."""
    if settings.spark_remote is None and any(task.needs_spark for task in tasks):
        get_jars(settings, os.environ, Progress(say=_log.info), direct=False)


def _needs_shared_files(settings: Settings, task: AnyTask) -> bool:
    return task.needs_spark and _access_of(settings, task) is Access.LOCAL


def _access_of(settings: Settings, task: AnyTask) -> Access | None:
    """Which way its attempts take to their workspace; None without one."""
    if task.workspace is None:
        return None
    return decide_access(
        task.workspace.access,
        Access(settings.spark_access),
        is_spark=task.body.workspace_kind is WorkspaceKind.SPARK,
        store_is_reachable=settings.store == "lakefs",
    )


def _supervisor_options(
    application: Application, tasks: Sequence[AnyTask], worker_id: WorkerId, batch: Batch | None
) -> SupervisorOptions:
    settings = application.settings
    # A poll that waits at the server would keep a batch waiting for its own end.
    waits = settings.orchestrator == "conductor" and batch is None
    return SupervisorOptions(
        worker_id=worker_id,
        executors=settings.executors,
        heartbeats={t.name: heartbeat_interval_of(t.controls.publish_budget) for t in tasks},
        merge_timeouts={t.name: merge_timeout_of(t.controls.publish_budget) for t in tasks},
        logs_directory=settings.logs_directory,
        death_limit=settings.executor_death_limit,
        shutdown_grace_seconds=settings.shutdown_grace_seconds,
        publish_may_outlive_executor=describe_store(settings).fencing is Fencing.SOFT,
        poll_wait_seconds=settings.poll_wait_seconds if waits else 0.0,
        keep_logs_days=settings.keep_logs_days,
        task_limits=settings.task_limits,
        max_attempts=None if batch is None else batch.max_attempts,
        recycle_after_attempts=settings.recycle_after_attempts,
        recycle_above_bytes=settings.recycle_above_memory,
        most_log_bytes=settings.attempt_log_bytes,
        most_processes=settings.attempt_processes,
    )


def tasks_of(declarations: Declarations) -> list[AnyTask]:
    """Every task that the targets declare or use in a pipeline, once each."""
    found = {task.name: task for task in declarations.tasks}
    for pipeline in declarations.pipelines:
        found.update({task.name: task for task in pipeline.tasks})
    return list(found.values())

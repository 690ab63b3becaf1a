"""`perago start`: a worker that stays, polls the orchestrator, and runs what it is given."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perago.cli.check import Targets
from perago.cli.context import help_text, options_of
from perago.cli.warned import warnings_to
from perago.domain.errors import OrchestratorUnavailableError, PeragoError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perago.authoring import AnyTask
    from perago.bootstrap import Application, Batch, Observation, Worker
    from perago.domain.attempt import Attempt
    from perago.runtime.health import HealthBoard
    from perago.runtime.supervisor import Supervisor
    from perago.settings import Settings

HELP = help_text(
    "Start a worker: poll for the tasks of TARGETs, and run each attempt in a process of its own.",
    {
        "perago start flights.py -j 4": "four attempts at a time",
        "perago start jobs.etl jobs.ml": "the tasks of several modules",
        "perago start flights.py --limit train=1": "never two attempts of `train` at a time",
        "perago start flights.py --once": "end when nothing is queued any more",
        "perago start flights.py --http-port 8080": "with /livez, /readyz and /metrics",
    },
    "The tasks must be registered (`perago register`). SIGTERM or Ctrl-C stops polling and lets "
    "running attempts finish for PERAGO_SHUTDOWN_GRACE_SECONDS; what is not done then is reported "
    "as failed, to be retried, except inside a publish call on lakeFS, which only its response "
    "time-out can decide. A second signal hurries. The exit code is 0 then.",
    "A worker locks its workspace root (PERAGO_WORKSPACE_ROOT): give every worker of a host its "
    "own. While the orchestrator does not answer, the worker waits for it (not with --once or "
    "--max-tasks, at the start); what runs goes on until its lease is over.",
)

_log = logging.getLogger(__name__)

_WAIT_SECONDS = 2.0
_LOOK_SECONDS = 0.1


def start(
    context: typer.Context,
    targets: Targets,
    *,
    executors: Annotated[
        int | None,
        typer.Option("-j", "--executors", min=1, help="How many attempts may run at a time."),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit", metavar="TASK=N", help="At most N attempts of this task here. Repeatable."
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when nothing is queued any more.")
    ] = False,
    max_tasks: Annotated[
        int | None, typer.Option("--max-tasks", min=1, help="End after so many attempts.")
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option("--http-port", min=0, max=65535, help="Serve probes and metrics there."),
    ] = None,
    log_format: Annotated[
        str | None, typer.Option("--log-format", help="auto, console or json.")
    ] = None,
) -> None:
    """Start a worker."""
    from perago.bootstrap import Batch, open_application, tasks_of
    from perago.cli.targets import load_declarations, require_spark_for

    settings = options_of(context).settings(
        executors=executors,
        task_limits=_read_limits(limit) if limit else None,
        http_port=http_port,
        log_format=log_format,
    )
    directory = Path.cwd()
    tasks = tasks_of(load_declarations(targets, directory))
    _check_tasks(tasks, settings)
    require_spark_for(tasks, settings)
    batch = Batch(max_attempts=max_tasks) if once or max_tasks is not None else None
    with open_application(settings, create=True) as application:
        worker = _Start(application, tuple(targets), directory, tasks)
        worker.run(batch, ends_when_idle=once)


class _Start:
    """One worker from its first look at the orchestrator to its end."""

    def __init__(
        self,
        application: Application,
        targets: tuple[str, ...],
        search_path: Path,
        tasks: Sequence[AnyTask],
    ) -> None:
        self._application = application
        self._targets = targets
        self._search_path = search_path
        self._tasks = tasks
        self._stop = _Stop()

    def run(self, batch: Batch | None, *, ends_when_idle: bool) -> None:
        """Work until a signal comes, or the batch is done."""
        from perago.bootstrap import (
            ExecutorFactory,
            observation_options,
            open_observation,
            open_worker,
        )
        from perago.runtime.signals import stop_on_signals

        application = self._application
        settings = application.settings
        with (
            warnings_to(None),
            stop_on_signals(self._stop),
            open_observation(observation_options(settings), application.clock) as observation,
        ):
            if not self._wait_for_definitions(observation.health, is_patient=batch is None):
                return
            factory = ExecutorFactory(
                settings=settings,
                targets=self._targets,
                search_path=self._search_path,
                log_stream=observation.log_stream,
            )
            with open_worker(
                application, self._tasks, factory, observation.events, batch=batch
            ) as worker:
                self._settle_swept(worker)
                self._work(worker, observation, ends_when_idle=ends_when_idle)

    def _work(self, worker: Worker, observation: Observation, *, ends_when_idle: bool) -> None:
        supervisor = worker.supervisor
        supervisor.health = observation.health
        self._stop.reach(supervisor)
        self._announce(worker, observation)
        supervisor.run(lambda: ends_when_idle and supervisor.is_out_of_work)
        _log.info("the worker ended")

    def _announce(self, worker: Worker, observation: Observation) -> None:
        from perago.bootstrap import describe_orchestrator, describe_store

        settings = self._application.settings
        _log.info(
            "worker %s: %d executors for %s; orchestrator: %s; store: %s; workspace root: %s",
            worker.worker_id,
            settings.executors,
            ", ".join(sorted(task.name for task in self._tasks)),
            describe_orchestrator(settings),
            describe_store(settings),
            settings.attempts_root,
        )
        if observation.http_port is not None:
            _log.info("probes and metrics on port %d", observation.http_port)

    def _wait_for_definitions(self, health: HealthBoard, *, is_patient: bool) -> bool:
        """Look at the TaskDefs, and wait for an orchestrator that is down; False on a signal."""
        from perago.app.worker_checks import find_task_differences, require_task_definitions

        has_said_so = False
        while not self._stop.is_requested:
            try:
                definitions = require_task_definitions(
                    self._tasks, self._application.impatient_orchestrator
                )
            except OrchestratorUnavailableError as error:
                if not is_patient:
                    raise
                if not has_said_so:
                    _log.warning("waiting for the orchestrator: %s", error.message)
                    has_said_so = True
                health.wait_for(error.message)
                self._pause(_WAIT_SECONDS)
            else:
                for name, differences in find_task_differences(self._tasks, definitions).items():
                    _log.warning(
                        "the orchestrator's definition of %s differs from the code (%s); "
                        "`perago register` brings it up to date",
                        name,
                        ", ".join(differences),
                    )
                return True
        return False

    def _pause(self, seconds: float) -> None:
        """Sleep, unless a signal comes."""
        end = time.monotonic() + seconds
        while not self._stop.is_requested and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)

    def _settle_swept(self, worker: Worker) -> None:
        """Report what an earlier worker of this root died over, so that nobody waits for its
        lease; unless somebody else has it now.
        """
        from perago.runtime.log_context import about

        for attempt in worker.swept:
            if self._stop.is_requested:
                return
            with about(attempt):
                self._settle(attempt, worker)

    def _settle(self, attempt: Attempt, worker: Worker) -> None:
        from perago.domain.attempt import decide_orphan

        name = attempt.reference_name
        try:
            snapshot = self._application.impatient_orchestrator.snapshot(attempt.task_id)
        except PeragoError as error:
            _log.warning("cannot look at what was left of %s: %s", name, error.message)
            return
        orphan = decide_orphan(attempt, snapshot, is_dead=worker.is_dead)
        if orphan is not None:
            _log.warning("%s was left by a worker that died", name)
            worker.supervisor.fail_for_dead_worker(orphan)


class _Stop:
    """What a signal does: nothing begins any more, and a supervisor drains, then hurries."""

    def __init__(self) -> None:
        self.is_requested = False
        self._supervisor: Supervisor | None = None

    def __call__(self) -> None:
        self.is_requested = True
        if self._supervisor is not None:
            self._supervisor.request_stop()

    def reach(self, supervisor: Supervisor) -> None:
        """From now on signals reach this supervisor; one that came before does too."""
        self._supervisor = supervisor
        if self.is_requested and not supervisor.is_stopping:
            supervisor.request_stop()


def _read_limits(texts: Sequence[str]) -> dict[str, str]:
    limits: dict[str, str] = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not (name and equals and number.isdecimal() and int(number)):
            raise UsageError(f"--limit {text!r} is not TASK=N", hint="for example --limit train=1")
        limits[name] = number
    return limits


def _check_tasks(tasks: Sequence[AnyTask], settings: Settings) -> None:
    if not tasks:
        raise UsageError("the TARGETs declare no task", hint="name a module that has @task in it")
    known = {task.name for task in tasks}
    strange = sorted(set(settings.task_limits) - known)
    if strange:
        raise UsageError(
            f"a limit is for {', '.join(strange)}, which the TARGETs do not have",
            hint=f"they have {', '.join(sorted(known))}",
        )

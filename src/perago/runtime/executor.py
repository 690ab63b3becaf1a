"""An executor: a spawned process that runs one attempt at a time.

It builds its own clients from a picklable factory, leads a process group of its own (so that a
kill takes Spark's JVM and forked children along), and dies with its supervisor.
"""

from __future__ import annotations

import ctypes
import gc
import io
import logging
import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import assert_never

from perago.app.attempt_policy import AttemptPolicy
from perago.app.attempt_ports import AttemptPorts
from perago.app.run_attempt import AttemptEnd, AttemptRun
from perago.authoring import AnyTask
from perago.domain.changes import ChangeCount
from perago.domain.errors import PeragoError
from perago.domain.execution import execution_of
from perago.domain.outcome import Failed, Outcome, Phase
from perago.domain.redaction import NOTHING_KNOWN, Redactor
from perago.ports import Lease
from perago.runtime.isolation import flush_output
from perago.runtime.log_context import process_is_about
from perago.runtime.log_redaction import redact_log
from perago.runtime.logs import LogStream, set_up_executor_logging, write_to_attempt_log
from perago.runtime.messages import CleanedUp, Decided, Ready, Reported, RunAttempt, Stop, Unfit
from perago.runtime.pipe_observer import PipeObserver
from perago.runtime.shared_lease import AttemptCell, SharedLease
from perago.runtime.supervisor_link import LOST_CONNECTION, SupervisorLink
from perago.system.directories import make_private_directories

_log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1

_REPORT_WAIT_SECONDS = 10.0
"""How long the clean-up waits for the report. An orchestrator that is away for longer must not
hold a slot: the supervisor goes on trying."""

EXIT_CODES = {LOST_CONNECTION: "its body closed the executor's connection to the supervisor"}
"""How executors end by themselves, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorKit:
    """What a factory builds inside the executor."""

    tasks: Mapping[str, AnyTask]
    ports: AttemptPorts
    policy: AttemptPolicy
    log_level: str
    most_open_files: int | None = None
    """How many files an executor, and each process that it starts, may have open."""
    log_stream: LogStream | None = None
    """How its log lines look on the worker's standard error; None is only in attempts' logs."""
    redactor: Redactor = NOTHING_KNOWN
    """Hides secrets in what leaves the executor, and in its logs."""


ExecutorFactory = Callable[[int], ExecutorKit]
"""Builds the kit of the executor with this number; must pickle."""


def executor_main(
    number: int,
    connection: Connection,
    nonce: bytes,
    lease_cell: AttemptCell,
    factory: ExecutorFactory,
    log_path: Path,
) -> None:
    """Serve attempts until told to stop. The entry point of the spawned process."""
    _settle_in()
    workers_stderr = os.dup(2)
    _set_up_output(log_path)
    link = SupervisorLink(connection, nonce)
    observer = PipeObserver(link, lease_cell)
    try:
        kit = factory(number)
    except PeragoError as error:
        observer.send(Unfit(reason=str(error)))
        return
    _limit(kit.most_open_files)
    set_up_executor_logging(
        kit.log_level, kit.log_stream, descriptor=workers_stderr, redactor=kit.redactor
    )
    # What was imported stays: no garbage collection need look through it, attempt after attempt.
    gc.freeze()
    observer.send(Ready())
    try:
        _serve(link, observer, kit, SharedLease(lease_cell), log_path)
    except OSError:
        # A body that closed all descriptors took the executor's own, too.
        link.require_connection()
        raise
    finally:
        kit.ports.spark.stop()
        redact_log(log_path, kit.redactor)


class SupervisorReporter:
    """The `OutcomeReporter` of an executor: its supervisor reports.

    Secrets are hidden before the supervisor is told: whoever hears of the end may read the log.
    """

    def __init__(
        self, link: SupervisorLink, observer: PipeObserver, log_path: Path, redactor: Redactor
    ) -> None:
        self._link = link
        self._observer = observer
        self._log_path = log_path
        self._redactor = redactor
        self._was_told = False
        self._redacted_to = 0

    def report(self, outcome: Outcome, changes: ChangeCount | None) -> bool:
        """Tell the supervisor, and wait a while for what the orchestrator says."""
        self._was_told = True
        flush_output()
        self._observer.send(self._decided(outcome, changes))
        answer = self._link.hear_report(_REPORT_WAIT_SECONDS)
        if answer is None:
            _log.warning("the orchestrator has not heard of the end yet; cleaning up meanwhile")
        return answer is not None and answer.is_accepted

    def close(self, end: AttemptEnd) -> None:
        """The attempt is cleaned up: say so, and how it ended, unless that was said."""
        if self._was_told:
            self._redact()
            self._observer.send(CleanedUp(), is_last=True)
        else:
            decided = self._decided(end.outcome, end.changes)
            self._observer.send(decided, CleanedUp(), is_last=True)

    def _decided(self, outcome: Outcome, changes: ChangeCount | None) -> Decided:
        self._redact()
        return Decided(outcome=self._redactor.apply_to_outcome(outcome), changes=changes)

    def _redact(self) -> None:
        self._redacted_to = redact_log(self._log_path, self._redactor, start=self._redacted_to)


def _serve(
    link: SupervisorLink,
    observer: PipeObserver,
    kit: ExecutorKit,
    lease: Lease,
    log_path: Path,
) -> None:
    redacted_to = 0
    while True:
        try:
            message = link.hear()
        except EOFError:  # the supervisor is gone
            return
        match message:
            case RunAttempt():
                observer.tells_body_later = message.is_brief
                reporter = SupervisorReporter(link, observer, message.log_path, kit.redactor)
                end = _run_with_log(message, kit, observer, lease, reporter)
                redacted_to = redact_log(log_path, kit.redactor, start=redacted_to)
                reporter.close(end)
            case Reported():  # it came after the clean-up had begun
                continue
            case Stop():
                return
            case _:
                assert_never(message)


def _limit(most_open_files: int | None) -> None:
    """Bound what the process, and all that it starts, may open; write no core dumps, which would
    hold whatever was in memory.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most_open_files is not None:
        most = most_open_files if hard == resource.RLIM_INFINITY else min(most_open_files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _run_with_log(
    message: RunAttempt,
    kit: ExecutorKit,
    observer: PipeObserver,
    lease: Lease,
    reporter: SupervisorReporter,
) -> AttemptEnd:
    """Run an attempt with its output in its own log; without a log it does not run."""
    try:
        log = _open_log(message.log_path)
    except OSError as error:
        return _refuse(f"cannot open the attempt's log {message.log_path}: {error.strerror}")
    execution = execution_of(message.polled, message.execution_id)
    with _output_to(log), process_is_about(execution):
        return _run(message, kit, observer, lease, reporter)


def _run(
    message: RunAttempt,
    kit: ExecutorKit,
    observer: PipeObserver,
    lease: Lease,
    reporter: SupervisorReporter,
) -> AttemptEnd:
    attempt = message.polled.attempt
    write_to_attempt_log(
        f"workflow={attempt.workflow_id} task={attempt.task_id} reference={attempt.reference_name}"
        f" retry={attempt.retry_count} execution={message.execution_id}"
    )
    task = kit.tasks.get(attempt.task_name)
    if task is None:
        return _refuse(f"this worker has no task {attempt.task_name}")
    end = AttemptRun(
        task,
        message.polled,
        message.execution_id,
        ports=replace(kit.ports, reporter=reporter),
        lease=lease,
        observer=observer,
        policy=kit.policy,
    ).run()
    write_to_attempt_log(f"attempt {end.outcome.status}: {end.cost}")
    return end


def _refuse(reason: str) -> AttemptEnd:
    """An attempt that could not even begin; the supervisor reports it."""
    return AttemptEnd(outcome=Failed(reason=reason, phase=Phase.PREPARE), is_reported=False)


# -- the process


def _settle_in() -> None:
    """Lead a process group, die with the supervisor, and leave the terminal to it."""
    if multiprocessing.parent_process() is None:
        raise RuntimeError("an executor is started by a supervisor, never by hand")
    os.setpgid(0, 0)
    if sys.platform == "linux":
        # The guardian ends the group when the supervisor dies; this is quicker, and needs nobody.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The supervisor decides what a Ctrl-C means; the terminal sends it to all. It was blocked since
    # the process started, so that one during the imports leaves no traceback on the screen.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, _pass_over(os.getpid()))


def _pass_over(executor: int) -> Callable[[int, FrameType | None], None]:
    """A handler that leaves SIGTERM to the supervisor, which drains; some tools send it to all.

    No SIG_IGN, which every program that a body starts would inherit: nobody could end them. What
    the body forks does inherit the handler, and ends as if there was none.
    """

    def handle(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != executor:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    return handle


def _set_up_output(log_path: Path) -> None:
    """No standard input, and standard output to the executor's own log."""
    # A child that reads the terminal from a background process group would stop the whole group.
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.close(nothing)
    log = _open_log(log_path)
    _point_output_to(log)
    os.close(log)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What a body printed before it crashed must be in its log, whatever it printed.
            stream.reconfigure(line_buffering=True, errors="backslashreplace")


@contextmanager
def _output_to(log: int) -> Iterator[None]:
    """Send everything that this process and its children print to a log; closes the log."""
    saved = {number: os.dup(number) for number in (1, 2)}
    flush_output()
    _point_output_to(log)
    os.close(log)
    try:
        yield
    finally:
        flush_output()
        for number, copy in saved.items():
            os.dup2(copy, number)
            os.close(copy)


def _open_log(path: Path) -> int:
    make_private_directories(path.parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)


def _point_output_to(descriptor: int) -> None:
    for number in (1, 2):
        os.dup2(descriptor, number)

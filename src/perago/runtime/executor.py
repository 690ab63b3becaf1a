"""An executor: a spawned process that runs one attempt at a time.

It builds its own clients from a picklable factory, leads a process group of its own (so that a
kill takes Spark's JVM and forked children along), and dies with its supervisor.
"""

from __future__ import annotations

import ctypes
import gc
import io
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import assert_never

from perago.app.attempt_policy import AttemptPolicy
from perago.app.attempt_ports import AttemptPorts
from perago.app.run_attempt import AttemptEnd, AttemptRun
from perago.authoring import AnyTask
from perago.domain.errors import PeragoError
from perago.domain.execution import execution_of
from perago.domain.outcome import Failed, Phase
from perago.ports import Lease
from perago.runtime.isolation import flush_output
from perago.runtime.log_context import process_is_about
from perago.runtime.logs import LogStream, set_up_executor_logging, write_to_attempt_log
from perago.runtime.messages import (
    AttemptEnded,
    Ready,
    RunAttempt,
    Stop,
    Unfit,
    hear_supervisor,
)
from perago.runtime.pipe_observer import PipeObserver
from perago.runtime.shared_lease import AttemptCell, SharedLease

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorKit:
    """What a factory builds inside the executor."""

    tasks: Mapping[str, AnyTask]
    ports: AttemptPorts
    policy: AttemptPolicy
    log_level: str
    log_stream: LogStream | None = None
    """How its log lines look on the worker's standard error; None is only in attempts' logs."""


ExecutorFactory = Callable[[int], ExecutorKit]
"""Builds the kit of the executor with this number; must pickle."""


def executor_main(
    number: int,
    connection: Connection,
    lease_cell: AttemptCell,
    factory: ExecutorFactory,
    log_path: Path,
) -> None:
    """Serve attempts until told to stop. The entry point of the spawned process."""
    _settle_in()
    workers_stderr = os.dup(2)
    _set_up_output(log_path)
    observer = PipeObserver(connection, lease_cell)
    try:
        kit = factory(number)
    except PeragoError as error:
        observer.send(Unfit(reason=str(error)))
        return
    set_up_executor_logging(kit.log_level, kit.log_stream, descriptor=workers_stderr)
    # What was imported stays: no garbage collection need look through it, attempt after attempt.
    gc.freeze()
    observer.send(Ready())
    try:
        _serve(connection, observer, kit, SharedLease(lease_cell))
    finally:
        kit.ports.spark.stop()


def _serve(connection: Connection, observer: PipeObserver, kit: ExecutorKit, lease: Lease) -> None:
    while True:
        try:
            message = hear_supervisor(connection)
        except EOFError:  # the supervisor is gone
            return
        match message:
            case RunAttempt():
                observer.tells_body_later = message.is_brief
                end = _run_with_log(message, kit, observer, lease)
                observer.send(
                    AttemptEnded(
                        outcome=end.outcome, is_reported=end.is_reported, changes=end.changes
                    )
                )
            case Stop():
                return
            case _:
                assert_never(message)


def _run_with_log(
    message: RunAttempt, kit: ExecutorKit, observer: PipeObserver, lease: Lease
) -> AttemptEnd:
    """Run an attempt with its output in its own log; without a log it does not run."""
    try:
        log = _open_log(message.log_path)
    except OSError as error:
        return _refuse(f"cannot open the attempt's log {message.log_path}: {error.strerror}")
    execution = execution_of(message.polled, message.execution_id)
    with _output_to(log), process_is_about(execution):
        return _run(message, kit, observer, lease)


def _run(message: RunAttempt, kit: ExecutorKit, observer: PipeObserver, lease: Lease) -> AttemptEnd:
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
        ports=kit.ports,
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
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def _point_output_to(descriptor: int) -> None:
    for number in (1, 2):
        os.dup2(descriptor, number)

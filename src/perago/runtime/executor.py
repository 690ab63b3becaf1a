"""An executor: a spawned process that runs one attempt at a time.

It builds its own clients from a picklable factory, leads a process group of its own (so that a
kill takes Spark's JVM and forked children along), and dies with its supervisor.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ctypes import c_double
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import assert_never

from perago.app.run_attempt import AttemptPorts, AttemptRun
from perago.authoring import AnyTask
from perago.domain.errors import PeragoError
from perago.domain.outcome import Failed, Outcome, Phase
from perago.ports import Lease
from perago.runtime.messages import (
    AttemptEnded,
    FromExecutor,
    PhaseEnded,
    PhaseStarted,
    Progressed,
    Ready,
    RunAttempt,
    Stop,
    ToExecutor,
    Transferred,
    Unfit,
)

LEASE_LOST = -1.0
"""What the shared lease cell holds once the attempt is cancelled."""

_PR_SET_PDEATHSIG = 1
_ORPHAN_CHECK_SECONDS = 0.5
_TRANSFER_REPORT_SECONDS = 0.1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorKit:
    """What a factory builds inside the executor."""

    tasks: Mapping[str, AnyTask]
    ports: AttemptPorts
    replace_unlabelled: bool
    log_level: str


ExecutorFactory = Callable[[int], ExecutorKit]
"""Builds the kit of the executor with this number; must pickle."""


class SharedLease:
    """The lease cell that the supervisor writes and this process reads: no message can be late."""

    def __init__(self, cell: c_double) -> None:
        self._cell = cell

    @property
    def deadline(self) -> float:
        """When the lease runs out, on `Clock.elapsed`."""
        return self._cell.value

    @property
    def is_lost(self) -> bool:
        """Whether the supervisor gave the attempt up."""
        return self._cell.value == LEASE_LOST


class PipeObserver:
    """Sends what an attempt does to the supervisor; a broken pipe is the watchdog's business."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._objects = 0
        self._bytes = 0
        self._sent_at = 0.0

    def phase_started(self, phase: Phase) -> None:
        """A phase begins."""
        self.send(PhaseStarted(phase=phase))

    def phase_ended(self, phase: Phase, seconds: float) -> None:
        """A phase is over."""
        self._flush()
        self.send(PhaseEnded(phase=phase, seconds=seconds))

    def transferred(self, objects: int, size: int) -> None:
        """Objects and bytes moved; added up, so that 100,000 files are not as many messages."""
        with self._lock:
            self._objects += objects
            self._bytes += size
            due = time.monotonic() - self._sent_at > _TRANSFER_REPORT_SECONDS
        if due:
            self._flush()

    def progressed(self, message: str, fraction: float | None) -> None:
        """The body said how far it is."""
        self.send(Progressed(message=message, fraction=fraction))

    def send(self, message: FromExecutor) -> None:
        """Send one message; never raises."""
        with self._lock:
            try:
                self._connection.send(message)
            except OSError:
                _log.debug("the supervisor is gone; %s not sent", type(message).__name__)

    def _flush(self) -> None:
        with self._lock:
            objects, size = self._objects, self._bytes
            self._objects = self._bytes = 0
            self._sent_at = time.monotonic()
        if objects or size:
            self.send(Transferred(objects=objects, size=size))


def executor_main(
    number: int,
    connection: Connection,
    lease_cell: c_double,
    factory: ExecutorFactory,
    log_path: Path,
) -> None:
    """Serve attempts until told to stop. The entry point of the spawned process."""
    os.setpgid(0, 0)
    _die_with_supervisor()
    # The supervisor decides what a Ctrl-C means; the terminal sends it to all.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _redirect_output(log_path)
    observer = PipeObserver(connection)
    try:
        kit = factory(number)
    except PeragoError as error:
        observer.send(Unfit(reason=str(error)))
        return
    logging.basicConfig(
        level=kit.log_level,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
        force=True,
    )
    # py4j logs every command at DEBUG and a broken gateway at ERROR; the body's error says it.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    observer.send(Ready())
    try:
        _serve(connection, observer, kit, SharedLease(lease_cell))
    finally:
        kit.ports.spark.stop()


def _serve(connection: Connection, observer: PipeObserver, kit: ExecutorKit, lease: Lease) -> None:
    while True:
        try:
            message: ToExecutor = connection.recv()
        except EOFError:  # the supervisor is gone
            return
        match message:
            case RunAttempt():
                with _attempt_output(message.log_path):
                    outcome = _run(message, kit, observer, lease)
                observer.send(AttemptEnded(outcome=outcome))
            case Stop():
                return
            case _:
                assert_never(message)


def _run(message: RunAttempt, kit: ExecutorKit, observer: PipeObserver, lease: Lease) -> Outcome:
    attempt = message.polled.attempt
    _log.info(
        "workflow=%s task=%s reference=%s retry=%d execution=%s",
        attempt.workflow_id,
        attempt.task_id,
        attempt.reference_name,
        attempt.retry_count,
        message.execution_id,
    )
    task = kit.tasks.get(attempt.task_name)
    if task is None:
        # Polled for a task that this executor's code does not have: a supervisor's mistake.
        outcome = Failed(
            reason=f"this worker has no task {attempt.task_name}", phase=Phase.VALIDATE
        )
        kit.ports.orchestrator.report(attempt, outcome)
        return outcome
    return AttemptRun(
        task,
        message.polled,
        message.execution_id,
        ports=kit.ports,
        lease=lease,
        observer=observer,
        replace_unlabelled=kit.replace_unlabelled,
    ).run()


@contextmanager
def _attempt_output(log_path: Path) -> Iterator[None]:
    """Send everything that this process and its children print to the attempt's log."""
    saved = [os.dup(1), os.dup(2)]
    home = Path.cwd()
    _redirect_output(log_path)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, descriptor)
            os.close(copy)
        os.chdir(home)  # a body may have changed it, and the next one must not notice


def _redirect_output(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.close(descriptor)


def _die_with_supervisor() -> None:
    """Make sure that no executor outlives its supervisor, even one that holds the GIL."""
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        raise RuntimeError("an executor is started by a supervisor, never by hand")
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    watch = threading.Thread(
        target=_watch, args=(supervisor.pid,), daemon=True, name="orphan-watch"
    )
    watch.start()


def _watch(supervisor_pid: int) -> None:
    while os.getppid() == supervisor_pid:
        time.sleep(_ORPHAN_CHECK_SECONDS)
    os.killpg(os.getpgrp(), signal.SIGKILL)

"""One executor process as its supervisor holds it."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path

import psutil

from perago.domain.attempt import Attempt
from perago.domain.execution import Execution, execution_of
from perago.domain.ids import ExecutionId
from perago.domain.outcome import Phase
from perago.domain.workflow import PolledTask
from perago.runtime.executor import ExecutorFactory, executor_main
from perago.runtime.guardian import Guardian
from perago.runtime.leases import LeaseState, next_due
from perago.runtime.messages import (
    FromExecutor,
    RunAttempt,
    Stop,
    ToExecutor,
    hear_executor,
    tell_executor,
)
from perago.runtime.shared_lease import LEASE_LOST, AttemptCell


@dataclass(slots=True, kw_only=True)
class Assignment:
    """The attempt that an executor has."""

    polled: PolledTask
    execution_id: ExecutionId
    lease: LeaseState
    phase: Phase = Phase.VALIDATE
    told_phase: Phase | None = None
    began: float = 0.0
    is_brief: bool = False
    """Whether it will be over before a poll is answered, if it is like those before it."""
    cancelled_at: float | None = None
    beat_is_under_way: bool = False

    @property
    def attempt(self) -> Attempt:
        """Whose attempt it is."""
        return self.polled.attempt

    @property
    def execution(self) -> Execution:
        """Everything that names it in a log."""
        return execution_of(self.polled, self.execution_id)

    @property
    def is_decided(self) -> bool:
        """Whether the outcome is being reported or was: then nothing cancels it any more."""
        return self.phase in (Phase.REPORT, Phase.CLEANUP)

    @property
    def is_still_brief(self) -> bool:
        """Whether it was expected to be over in no time, and nothing was seen of it since."""
        return self.is_brief and self.told_phase is None

    @property
    def needs_lease(self) -> bool:
        """Whether the lease must still be kept: until the orchestrator has heard the outcome."""
        return self.cancelled_at is None and self.phase is not Phase.CLEANUP

    @property
    def lease_due(self) -> float | None:
        """When its lease must be looked at again, on `Clock.elapsed`."""
        if not self.needs_lease:
            return None
        if not self.is_decided:
            return next_due(self.lease, beats=not self.beat_is_under_way)
        return None if self.beat_is_under_way else self.lease.next_beat


@dataclass(slots=True)
class Slot:
    """A place for one executor; the process in it may be replaced."""

    number: int
    context: SpawnContext
    factory: ExecutorFactory
    log_path: Path
    most_attempts: int | None = None
    most_bytes: int | None = None
    """After so many attempts, or above so much memory, an executor is replaced."""
    process: SpawnProcess | None = None
    connection: Connection | None = None
    guardian: Guardian | None = None
    cell: AttemptCell | None = None
    is_ready: bool = False
    is_gone: bool = False
    """Whether its process ended, though it is not buried yet."""
    retired_at: float | None = None
    attempts_run: int = 0
    assignment: Assignment | None = None
    deaths_in_a_row: int = 0
    respawn_at: float = 0.0
    last_used: float = 0.0
    pipe: int | None = None
    """The descriptor that tells when the executor speaks."""
    sentinel: int | None = None
    """The descriptor that tells when it ends, unless a forked child keeps it open."""

    @property
    def is_idle(self) -> bool:
        """Whether it can take an attempt."""
        can_run = self.is_ready and not self.is_retiring and not self.is_gone
        return can_run and self.assignment is None

    @property
    def is_finishing(self) -> bool:
        """Whether its attempt is decided, or as brief as it should be, and will soon make room."""
        return self.assignment is not None and (
            self.assignment.is_decided or self.assignment.is_still_brief
        )

    def spawn(self) -> None:
        """Start a process in this slot."""
        ours, theirs = self.context.Pipe()
        self.cell = self.context.RawValue(AttemptCell, LEASE_LOST)
        self.process = self.context.Process(
            target=executor_main,
            args=(self.number, theirs, self.cell, self.factory, self.log_path),
            name=f"perago-executor-{self.number}",
        )
        # A Ctrl-C while the process imports must not end it with a traceback; it unblocks it.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if self.process.pid is not None:
            self.guardian = Guardian(self.process.pid)
        theirs.close()
        self.connection = ours
        self.pipe, self.sentinel = ours.fileno(), self.process.sentinel
        self.is_ready, self.is_gone, self.retired_at = False, False, None
        self.attempts_run = 0

    def assign(self, assignment: Assignment, log_path: Path) -> None:
        """Hand an attempt to the executor."""
        self.assignment = assignment
        self.share_deadline(assignment.lease.safe_until)
        self._share_poll_count(assignment.attempt)
        if self.cell is not None:
            self.cell.enter(Phase.VALIDATE)
        self._send(
            RunAttempt(
                polled=assignment.polled,
                execution_id=assignment.execution_id,
                log_path=log_path,
                is_brief=assignment.is_brief,
            )
        )

    def share_deadline(self, deadline: float) -> None:
        """Let the executor see how long its lease is."""
        if self.cell is not None:
            self.cell.deadline = deadline

    def adopt(self, again: PolledTask) -> None:
        """Take a second delivery of the task that runs here for the one that runs."""
        assert self.assignment is not None
        self.assignment.polled = again
        self._share_poll_count(again.attempt)

    def _share_poll_count(self, attempt: Attempt) -> None:
        if self.cell is not None:
            self.cell.hand_out(attempt.poll_count)

    def cancel(self, now: float) -> None:
        """Tell the executor that its attempt is given up: it publishes nothing from now on."""
        self.share_deadline(LEASE_LOST)
        if self.assignment is not None:
            self.assignment.cancelled_at = now

    @property
    def is_retiring(self) -> bool:
        """Whether it was asked to end, to be replaced."""
        return self.retired_at is not None

    def retire(self, now: float) -> None:
        """Have an idle executor end, to be replaced by a fresh one."""
        self.retired_at = now
        self.ask_to_stop()

    @property
    def is_used_up(self) -> bool:
        """Whether its executor is to be replaced before it gets another attempt."""
        return (self.most_attempts is not None and self.attempts_run >= self.most_attempts) or (
            self.most_bytes is not None and self.memory_bytes > self.most_bytes
        )

    @property
    def memory_bytes(self) -> int:
        """What the executor itself holds in memory now; 0 when it cannot be told."""
        try:
            return psutil.Process(self.process.pid).memory_info().rss if self.process else 0
        except psutil.Error:  # it is going away
            return 0

    def ask_to_stop(self) -> None:
        """Let an idle executor end by itself, Spark included."""
        self._send(Stop())

    def receive(self) -> tuple[FromExecutor, ...]:
        """The next things that the executor said; empty when there is nothing."""
        if self.connection is None or not _has_something(self.connection):
            return ()
        try:
            return hear_executor(self.connection)
        except (EOFError, OSError):  # it is gone, and with it whatever it had to say
            return ()

    def _send(self, message: ToExecutor) -> None:
        if self.connection is not None:
            # An executor that died in this moment is noticed, and settled, by its death.
            with suppress(OSError):
                tell_executor(self.connection, message)

    @property
    def is_dead(self) -> bool:
        """Whether the process ended. Asked of the kernel: a forked child may keep the pipe open."""
        return self.process is not None and not self.process.is_alive()

    def kill(self) -> None:
        """End the process with everything it started."""
        if self.process is None:
            return
        self._kill_group()
        self.process.kill()  # before it made its own group, the line above found none
        self.process.join()

    def bury(self) -> str:
        """Forget a dead process and end what it left running; say how it died."""
        if self.process is None:
            return "never started"
        self._kill_group()
        self.process.join()
        code = self.process.exitcode or 0
        self.process.close()
        if self.guardian is not None:
            self.guardian.dismiss()
        if self.connection is not None:
            self.connection.close()
        self.process = self.connection = self.guardian = None
        self.pipe = self.sentinel = None
        self.is_ready = False
        return describe_exit(code)

    def _kill_group(self) -> None:
        """A process group keeps its id while anybody is in it, also after its leader is gone."""
        if self.process is not None and self.process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)


def _has_something(connection: Connection) -> bool:
    """`connection.poll()` without the selector that it builds each time."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def describe_exit(code: int) -> str:
    """How a process ended, from what `multiprocessing` says of it."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"killed by signal {-code}"

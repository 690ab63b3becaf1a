"""One executor process as its supervisor holds it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from ctypes import c_double
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path

from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId
from perago.domain.outcome import Phase
from perago.domain.workflow import PolledTask
from perago.runtime.executor import LEASE_LOST, ExecutorFactory, executor_main
from perago.runtime.leases import LeaseState
from perago.runtime.messages import RunAttempt, Stop


@dataclass(slots=True, kw_only=True)
class Assignment:
    """The attempt that an executor has."""

    polled: PolledTask
    execution_id: ExecutionId
    lease: LeaseState
    phase: Phase = Phase.VALIDATE
    cancelled_at: float | None = None

    @property
    def attempt(self) -> Attempt:
        """Whose attempt it is."""
        return self.polled.attempt

    @property
    def is_decided(self) -> bool:
        """Whether the outcome is being reported or was: then the lease no longer matters."""
        return self.phase in (Phase.REPORT, Phase.CLEANUP)


@dataclass(slots=True)
class Slot:
    """A place for one executor; the process in it may be replaced."""

    number: int
    context: SpawnContext
    factory: ExecutorFactory
    log_path: Path
    process: SpawnProcess | None = None
    connection: Connection | None = None
    cell: c_double | None = None
    is_ready: bool = False
    assignment: Assignment | None = None
    deaths_in_a_row: int = 0
    respawn_at: float = 0.0
    last_used: float = field(default=0.0)

    @property
    def is_idle(self) -> bool:
        """Whether it can take an attempt."""
        return self.is_ready and self.assignment is None

    def spawn(self) -> None:
        """Start a process in this slot."""
        ours, theirs = self.context.Pipe()
        self.cell = self.context.RawValue(c_double, LEASE_LOST)
        self.process = self.context.Process(
            target=executor_main,
            args=(self.number, theirs, self.cell, self.factory, self.log_path),
            name=f"perago-executor-{self.number}",
        )
        self.process.start()
        theirs.close()
        self.connection = ours
        self.is_ready = False

    def assign(self, assignment: Assignment, log_path: Path) -> None:
        """Hand an attempt to the executor."""
        self.assignment = assignment
        self.share_deadline(assignment.lease.deadline)
        if self.connection is not None:
            self.connection.send(
                RunAttempt(
                    polled=assignment.polled,
                    execution_id=assignment.execution_id,
                    log_path=log_path,
                )
            )

    def share_deadline(self, deadline: float) -> None:
        """Let the executor see how long its lease is."""
        if self.cell is not None:
            self.cell.value = deadline

    def cancel(self, now: float) -> None:
        """Tell the executor that its attempt is given up: it publishes nothing from now on."""
        self.share_deadline(LEASE_LOST)
        if self.assignment is not None:
            self.assignment.cancelled_at = now

    def ask_to_stop(self) -> None:
        """Let an idle executor end by itself, Spark included."""
        if self.connection is not None:
            with suppress(OSError):
                self.connection.send(Stop())

    def kill(self) -> None:
        """End the process with everything it started."""
        if self.process is None or self.process.pid is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()  # before it made its own group, the line above found none
        self.process.join()

    def bury(self) -> str:
        """Forget a dead process; say how it died."""
        if self.process is None:
            return "never started"
        # What it started may outlive it; the group still has its id.
        if self.process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.join()
        code = self.process.exitcode or 0
        self.process.close()
        if self.connection is not None:
            self.connection.close()
        self.process = self.connection = None
        self.is_ready = False
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

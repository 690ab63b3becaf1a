"""The supervisor: polls for free slots, keeps leases, and replaces executors that die.

Invariants: an attempt is polled only when a slot is free for it; its lease is renewed here, in a
process that no body can stall; an attempt whose lease is lost is told so before anything else,
then killed, and reports nothing; a dead executor's attempt is reported at once.
"""

from __future__ import annotations

import logging
import multiprocessing
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import assert_never

from perago.domain.attempt import Attempt, LogicalTask
from perago.domain.errors import EnvironmentUnfitError, PeragoError
from perago.domain.ids import WorkerId
from perago.domain.outcome import Failed, Phase, decide_executor_death
from perago.ports import AttemptDirectories, Clock, Orchestrator
from perago.runtime.dispatcher import IDLE_POLL_SECONDS, Dispatcher
from perago.runtime.events import WorkerEvents
from perago.runtime.executor import ExecutorFactory
from perago.runtime.lease_keeper import LeaseKeeper
from perago.runtime.leases import next_due, respawn_delay
from perago.runtime.messages import (
    AttemptEnded,
    FromAttempt,
    FromExecutor,
    PhaseEnded,
    PhaseStarted,
    Progressed,
    Ready,
    Transferred,
    Unfit,
)
from perago.runtime.report_queue import ReportQueue
from perago.runtime.slot import Assignment, Slot

_log = logging.getLogger(__name__)

_STOP_GRACE_SECONDS = 10.0
_MESSAGES_PER_TURN = 100
_START_TRIES = 4
"""After so many executors that died before they were ready, something is wrong with all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorOptions:
    """How one supervisor works."""

    worker_id: WorkerId
    executors: int
    heartbeats: Mapping[str, float]
    """For each task that it polls, the heartbeat interval in seconds."""
    merge_timeouts: Mapping[str, float]
    logs_directory: Path
    death_limit: int = 3
    shutdown_grace_seconds: float = 30.0
    publish_may_outlive_executor: bool = False
    """Whether a publish call that was sent may still land after its sender died (a server does
    the work). Then the death is reported only after the merge time-out."""


class Supervisor:
    """Runs executors until its caller is done, or it is told to stop."""

    def __init__(
        self,
        options: SupervisorOptions,
        *,
        orchestrator: Orchestrator,
        directories: AttemptDirectories,
        clock: Clock,
        factory: ExecutorFactory,
        events: WorkerEvents,
    ) -> None:
        self._options = options
        self._orchestrator = orchestrator
        self._directories = directories
        self._clock = clock
        self._events = events
        context = multiprocessing.get_context("spawn")
        self._slots = [
            Slot(number, context, factory, options.logs_directory / f"executor-{number}.log")
            for number in range(options.executors)
        ]
        self._deaths: Counter[LogicalTask] = Counter()
        self._reports = ReportQueue(orchestrator, clock)
        self._leases = LeaseKeeper(orchestrator, clock)
        self._dispatcher = Dispatcher(
            orchestrator,
            clock,
            worker_id=options.worker_id,
            heartbeats=options.heartbeats,
            logs_directory=options.logs_directory,
        )
        self._stop_deadline: float | None = None

    # -- the caller's side

    def run(self, is_done: Callable[[], bool]) -> None:
        """Work until `is_done`, or until a requested stop has drained."""
        try:
            for slot in self._slots:
                slot.spawn()
            while not self._is_finished(is_done):
                self._tick()
        finally:
            self._end_executors()

    def request_stop(self) -> None:
        """Stop polling and drain; asked a second time, hurry. Safe in a signal handler."""
        now = self._clock.elapsed()
        if self._stop_deadline is None:
            self._stop_deadline = now + self._options.shutdown_grace_seconds
        else:
            self._stop_deadline = now

    def fail_for_dead_worker(self, attempt: Attempt) -> None:
        """Report what an earlier worker held as failed, so that its retry need not wait for the
        lease. In which phase that worker died nobody knows.
        """
        delay = self._options.merge_timeouts.get(attempt.task_name, 0.0)
        self._reports.add(
            attempt,
            Failed(reason="the worker that held it died", phase=Phase.BODY),
            delay=delay if self._options.publish_may_outlive_executor else 0.0,
        )

    @property
    def seconds_to_last_report(self) -> float:
        """How long what dead workers and executors held may still be waited for."""
        return max((due - self._clock.elapsed() for due in self._reports.dues), default=0.0)

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was requested."""
        return self._stop_deadline is not None

    def _is_finished(self, is_done: Callable[[], bool]) -> bool:
        busy = any(slot.assignment is not None for slot in self._slots)
        if busy or not self._reports.is_empty:
            return False
        return self.is_stopping or is_done()

    # -- one turn of the loop

    def _tick(self) -> None:
        self._hear(self._wait_seconds())
        now = self._clock.elapsed()
        if self._reports.send_due():
            self._dispatcher.poll_soon()
        for slot in self._slots:
            self._revive(slot, now)
            if slot.assignment is not None:
                self._leases.keep(slot, slot.assignment, self._take_messages)
        if self._stop_deadline is not None and now >= self._stop_deadline:
            self._abandon_all("the worker was stopped")
            self._reports.send_due()
            self._reports.forget_delayed()
        elif not self.is_stopping and now >= self._dispatcher.next_poll:
            for assignment in self._dispatcher.poll(self._slots):
                self._events.attempt_started(assignment.attempt)

    def _wait_seconds(self) -> float:
        """How long nothing needs doing, unless an executor speaks."""
        now = self._clock.elapsed()
        dues = [now + IDLE_POLL_SECONDS, *self._reports.dues]
        if self._stop_deadline is None:
            dues.append(self._dispatcher.next_poll)
        elif any(slot.assignment is not None for slot in self._slots):
            dues.append(self._stop_deadline)
        for slot in self._slots:
            if slot.assignment is not None and slot.assignment.needs_lease:
                dues.append(next_due(slot.assignment.lease))
            if slot.process is None and not self.is_stopping:
                dues.append(slot.respawn_at)
        return max(0.0, min(dues) - now)

    def _hear(self, seconds: float) -> None:
        """Wait until an executor speaks or dies, take what was said, and settle the dead."""
        handles: list[Connection | int] = []
        for slot in self._slots:
            if slot.process is not None and slot.connection is not None:
                handles += [slot.connection, slot.process.sentinel]
        if handles:
            wait(handles, seconds)
        else:
            self._clock.sleep(seconds)
        for slot in self._slots:
            # Death first: what a dead executor had said is then complete.
            if slot.is_dead:
                self._take_last_messages(slot)
                self._handle_death(slot)
            else:
                self._take_messages(slot)

    def _take_messages(self, slot: Slot) -> None:
        """Take what there is, up to a bound: a talkative body must not keep the loop busy."""
        for _ in range(_MESSAGES_PER_TURN):
            if not self._take_message(slot):
                return

    def _take_last_messages(self, slot: Slot) -> None:
        """Take all that an executor had said before its end: it tells how far its attempt was."""
        while self._take_message(slot):
            pass

    def _take_message(self, slot: Slot) -> bool:
        """Take one message; whether there was one."""
        connection = slot.connection
        if connection is None or not _has_message(connection):
            return False
        try:
            message: FromExecutor = connection.recv()
        except (EOFError, OSError):
            return False
        self._handle(slot, message)
        return True

    def _handle(self, slot: Slot, message: FromExecutor) -> None:
        if isinstance(message, Unfit):
            raise EnvironmentUnfitError(f"an executor cannot be built: {message.reason}")
        if isinstance(message, Ready):
            slot.is_ready = True
            self._dispatcher.poll_soon()
        elif slot.assignment is not None:
            self._handle_attempt(slot, slot.assignment, message)

    def _handle_attempt(self, slot: Slot, assignment: Assignment, message: FromAttempt) -> None:
        attempt = assignment.attempt
        match message:
            case PhaseStarted(phase=phase):
                assignment.phase = phase
                self._events.phase_started(attempt, phase)
            case PhaseEnded(phase=phase, seconds=took):
                self._events.phase_ended(attempt, phase, took)
            case Transferred(objects=objects, size=size):
                self._events.transferred(attempt, objects, size)
            case Progressed(message=text, fraction=fraction):
                self._events.progressed(attempt, text, fraction)
                self._append_log(attempt, text)
            case AttemptEnded(outcome=outcome, is_reported=is_reported):
                if not is_reported:
                    self._reports.add(attempt, outcome)
                slot.assignment = None
                slot.deaths_in_a_row = 0
                slot.last_used = self._clock.elapsed()
                self._deaths.pop(attempt.logical_task, None)
                self._dispatcher.poll_soon()
                self._events.attempt_ended(attempt, outcome)
            case _:
                assert_never(message)

    # -- deaths

    def _handle_death(self, slot: Slot) -> None:
        assignment, was_ready = slot.assignment, slot.is_ready
        how = slot.bury()
        slot.assignment = None
        slot.deaths_in_a_row += 1
        slot.respawn_at = self._clock.elapsed() + respawn_delay(slot.deaths_in_a_row)
        self._events.executor_died(assignment.attempt if assignment else None, how)
        if assignment is not None:
            self._settle_dead_attempt(assignment, how)
        elif not was_ready and slot.deaths_in_a_row >= _START_TRIES:
            raise EnvironmentUnfitError(
                f"executors die while starting: {how}", hint=f"see {slot.log_path}"
            )

    def _settle_dead_attempt(self, assignment: Assignment, how: str) -> None:
        attempt = assignment.attempt
        self._collect(assignment)
        if assignment.cancelled_at is not None or assignment.phase is Phase.CLEANUP:
            # Given up, or reported already: the death decides nothing.
            self._events.attempt_ended(attempt, None)
            return
        self._deaths[attempt.logical_task] += 1
        outcome = decide_executor_death(
            reference_name=attempt.reference_name,
            phase=assignment.phase,
            deaths=self._deaths[attempt.logical_task],
            limit=self._options.death_limit,
            how=how,
        )
        delay = self._options.merge_timeouts[attempt.task_name] if self._may_land(assignment) else 0
        self._reports.add(attempt, outcome, delay=delay)
        self._events.attempt_ended(attempt, outcome)

    def _may_land(self, assignment: Assignment) -> bool:
        """Whether a publish call of a dead executor may still be carried out."""
        return assignment.phase is Phase.PUBLISH and self._options.publish_may_outlive_executor

    def _collect(self, assignment: Assignment) -> None:
        try:
            self._directories.collect(assignment.execution_id)
        except OSError as error:  # the next start sweeps it
            _log.warning("cannot remove the directory of a dead attempt: %s", error)

    def _append_log(self, attempt: Attempt, text: str) -> None:
        try:
            self._orchestrator.append_log(attempt.task_id, text)
        except PeragoError as error:
            _log.debug("cannot log to %s: %s", attempt.task_id, error.message)

    def _revive(self, slot: Slot, now: float) -> None:
        if slot.process is None and now >= slot.respawn_at and not self.is_stopping:
            slot.spawn()

    # -- stopping

    def _abandon_all(self, reason: str) -> None:
        """At the end of the drain: what did not finish is reported failed, and killed."""
        for slot in self._slots:
            assignment = slot.assignment
            if assignment is None:
                continue
            slot.cancel(self._clock.elapsed())
            slot.kill()
            self._take_last_messages(slot)
            if slot.assignment is None:  # it had ended in time
                continue
            slot.assignment = None
            self._collect(assignment)
            # Of a publish call that a server may still carry out, only the lease can tell.
            if not self._may_land(assignment):
                failed = Failed(reason=reason, phase=assignment.phase)
                self._reports.add(assignment.attempt, failed)
            self._events.attempt_ended(assignment.attempt, None)

    def _end_executors(self) -> None:
        """Let idle executors end by themselves; kill those that do not."""
        for slot in self._slots:
            if slot.assignment is None:
                slot.ask_to_stop()
            else:  # only when an error broke the loop
                slot.kill()
        deadline = self._clock.elapsed() + _STOP_GRACE_SECONDS
        for slot in self._slots:
            if slot.process is not None:
                slot.process.join(max(0.0, deadline - self._clock.elapsed()))
                slot.kill()
                slot.bury()


def _has_message(connection: Connection) -> bool:
    try:
        return connection.poll()
    except OSError:  # the other side is gone, and with it whatever it had to say
        return False

"""The supervisor: polls for free slots, keeps leases, and replaces executors that die.

Invariants: an attempt is polled only when a slot is free for it, or about to be; its lease is
renewed here, in a process that no body can stall; an attempt whose lease is lost is told so before
anything else, then killed, and reports nothing; a dead executor's attempt is reported at once. The
loop itself never waits for the orchestrator: calls are made beside it (`calls.py`).
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
from collections import Counter
from collections.abc import Callable

from perago.domain.attempt import Attempt
from perago.domain.errors import EnvironmentUnfitError
from perago.domain.outcome import Failed, Phase
from perago.ports import AttemptDirectories, Clock, Orchestrator
from perago.runtime.calls import Calls, CallThreads, Inbox
from perago.runtime.deaths import DeathRecord
from perago.runtime.dispatcher import Dispatcher, PollPlan
from perago.runtime.events import WorkerEvents
from perago.runtime.executor import ExecutorFactory
from perago.runtime.health import HealthBoard, HealthState
from perago.runtime.hearing import Hearing
from perago.runtime.intake import Intake
from perago.runtime.lease_keeper import LeaseKeeper
from perago.runtime.leases import respawn_delay
from perago.runtime.log_context import about
from perago.runtime.log_retention import LogRetention
from perago.runtime.options import SupervisorOptions
from perago.runtime.report_queue import ReportQueue
from perago.runtime.slot import Assignment, Slot
from perago.runtime.task_log import TaskLog
from perago.runtime.waiting import Waiting

_log = logging.getLogger(__name__)

_LONGEST_TURN_SECONDS = 0.25
"""A death that no pipe tells of (a forked child holds it open) is noticed this soon."""

_STOP_GRACE_SECONDS = 10.0
_LAST_CALLS_SECONDS = 5.0
"""How long after the end of a drain the orchestrator may take to hear of it."""

_CRASH_LOOP_DEATHS = 3
_START_TRIES = 4
"""After so many executors that died before one was ready, something is wrong with all."""

CallsFactory = Callable[[str, int], Calls]
"""Makes calls under a name, on up to so many threads."""


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
        make_calls: CallsFactory | None = None,
    ) -> None:
        self._options = options
        self._directories = directories
        self._clock = clock
        self._events = events
        self.health: HealthBoard | None = None
        """Where it says how it is, once each turn, if anybody asks."""
        self._inbox = Inbox()
        self._waiting = Waiting()
        context = multiprocessing.get_context("spawn")
        executors = options.executors
        self._slots = [
            Slot(
                number,
                context,
                factory,
                options.logs_directory / f"executor-{number}.log",
                most_attempts=options.recycle_after_attempts,
                most_bytes=options.recycle_above_bytes,
            )
            for number in range(executors)
        ]
        calls = make_calls or self._make_threads
        self._deaths = DeathRecord(options)
        self._task_log = TaskLog(orchestrator, calls("log", 1))
        farewells = calls("report", min(2 * executors, 8))
        self._reports = ReportQueue(orchestrator, clock, farewells, self._ask_soon)
        self._intake = Intake(
            self._slots,
            options,
            orchestrator=orchestrator,
            clock=clock,
            calls=farewells,
            events=events,
            is_over=self._reports.holds,
        )
        self._hearing = Hearing(
            clock,
            events=events,
            intake=self._intake,
            reports=self._reports,
            task_log=self._task_log,
            deaths=self._deaths,
            ask_soon=self._ask_soon,
        )
        self._leases = LeaseKeeper(
            orchestrator,
            clock,
            calls("lease", executors),
            events=events,
            hear=self._hearing.take,
            note=self._task_log.add,
        )
        self._dispatcher = Dispatcher(
            PollPlan(
                task_names=tuple(options.heartbeats),
                wait_seconds=options.poll_wait_seconds,
                limits=options.task_limits,
            ),
            worker_id=options.worker_id,
            orchestrator=orchestrator,
            clock=clock,
            calls=calls("poll", executors + 1),
            events=events,
            receive=self._intake.receive,
        )
        self._retention = LogRetention(
            options.logs_directory, calls("retention", 1), days=options.keep_logs_days
        )
        self._next_look_at_all = 0.0
        self._stop_deadline: float | None = None

    def _make_threads(self, name: str, threads: int) -> Calls:
        return CallThreads(self._inbox, name, threads=threads)

    # -- the caller's side

    def run(self, is_done: Callable[[], bool]) -> None:
        """Work until `is_done`, or until a requested stop has drained."""
        gc.freeze()  # what was imported stays: no garbage collection need look through it
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
            self._stop_deadline = min(now, self._stop_deadline)
        self._inbox.wake()

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

    @property
    def is_out_of_work(self) -> bool:
        """Whether nothing runs and the last look at every queue found nothing."""
        return not self._is_busy and self._dispatcher.found_nothing

    @property
    def _is_busy(self) -> bool:
        return any(slot.assignment is not None for slot in self._slots)

    def _is_finished(self, is_done: Callable[[], bool]) -> bool:
        now = self._clock.elapsed()
        if self._stop_deadline is not None and now >= self._stop_deadline + _LAST_CALLS_SECONDS:
            _log.warning("the orchestrator does not answer; what is left waits for its lease")
            return True
        if self._is_busy or not self._reports.is_empty:
            return False
        if self.is_stopping or self._intake.has_had_enough or is_done():
            # What an open poll brings from now on is handed back, not lost.
            self._intake.close()
            return not self._dispatcher.is_asking and not self._intake.is_handing_back
        return False

    # -- one turn of the loop

    def _tick(self) -> None:
        self._tell_health()
        self._hear(self._wait_seconds())
        now = self._clock.elapsed()
        self._reports.send_due()
        self._retention.sweep_if_due(now)
        for slot in self._slots:
            self._revive(slot, now)
            if slot.assignment is not None:
                self._leases.keep(slot, slot.assignment)
        if self._stop_deadline is not None and now >= self._stop_deadline:
            self._intake.close()
            self._abandon_all("the worker was stopped")
            self._reports.send_due()
            self._reports.forget_delayed()
        elif self.is_stopping:
            self._intake.close()
        else:
            self._intake.give_up_waiting(now)
            self._ask()

    def _tell_health(self) -> None:
        """Say how the worker is, for those who probe it."""
        if self.health is None:
            return
        now, slots = self._clock.elapsed(), self._slots
        self.health.state = HealthState(
            turned_at=now,
            poller_turned_at=self._dispatcher.oldest_poll_began_at or now,
            answered_at=self._dispatcher.answered_at,
            poll_error=self._dispatcher.error,
            executors=len(slots),
            executors_alive=sum(slot.process is not None for slot in slots),
            executors_ready=sum(slot.is_ready for slot in slots),
            executors_busy=sum(slot.assignment is not None for slot in slots),
            crash_looping=sum(slot.deaths_in_a_row >= _CRASH_LOOP_DEATHS for slot in slots),
            is_draining=self.is_stopping,
        )

    def _ask(self) -> None:
        """Poll for the slots that are free."""
        running: Counter[str] = Counter()
        if self._options.task_limits:  # else nobody asks who runs
            running = self._intake.waiting
            running.update(
                slot.assignment.attempt.task_name
                for slot in self._slots
                if slot.assignment is not None
            )
        self._dispatcher.ask(self._room, running)

    @property
    def _room(self) -> int:
        """How many attempts can be polled for. Where reports are not heard, fewer than there are
        slots: what a worker holds, running or over, is twice its slots at the most.
        """
        return self._intake.room - max(0, self._reports.unheard - len(self._slots))

    def _ask_soon(self) -> None:
        self._dispatcher.ask_soon()

    def _wait_seconds(self) -> float:
        """How long nothing needs doing, unless an executor speaks."""
        now = self._clock.elapsed()
        dues = [now + _LONGEST_TURN_SECONDS, *self._reports.dues]
        if self._stop_deadline is not None:
            if self._is_busy:
                dues.append(self._stop_deadline)
        elif self._room > 0 and not self._dispatcher.is_asking:
            dues.append(self._dispatcher.due)
        for slot in self._slots:
            if slot.assignment is not None and (due := slot.assignment.lease_due) is not None:
                dues.append(due)
            if slot.process is None and not self.is_stopping:
                dues.append(slot.respawn_at)
        return max(0.0, min(dues) - now)

    def _hear(self, seconds: float) -> None:
        """Wait until an executor or a call answers, take what was said, and settle the dead."""
        descriptors = [self._inbox.fileno()]
        for slot in self._slots:
            if slot.pipe is not None and slot.sentinel is not None:
                descriptors += [slot.pipe, slot.sentinel]
        ready = self._waiting.wait(descriptors, seconds)
        now = self._clock.elapsed()
        looks_at_all = now >= self._next_look_at_all
        if looks_at_all:
            self._next_look_at_all = now + _LONGEST_TURN_SECONDS
        for slot in self._slots:
            # Death first: what a dead executor had said is then complete.
            if (looks_at_all or slot.sentinel in ready) and slot.is_dead:
                self._hearing.take_last(slot)
                self._handle_death(slot)
            elif slot.pipe in ready:
                self._hearing.take(slot)
            elif looks_at_all:
                self._hearing.look(slot)
        if self._inbox.fileno() in ready:
            self._inbox.take_all()

    # -- deaths

    def _handle_death(self, slot: Slot) -> None:
        assignment, was_ready, was_retiring = slot.assignment, slot.is_ready, slot.is_retiring
        how = slot.bury()
        slot.assignment = None
        if was_retiring and assignment is None:
            slot.respawn_at = self._clock.elapsed()
            return
        slot.deaths_in_a_row += 1
        slot.respawn_at = self._clock.elapsed() + respawn_delay(slot.deaths_in_a_row)
        self._events.executor_died(assignment.attempt if assignment else None, how)
        self._intake.fill()
        if assignment is not None:
            self._settle_dead_attempt(assignment, how)
        elif (
            not (was_ready or self._hearing.was_anybody_ready)
            and slot.deaths_in_a_row >= _START_TRIES
        ):
            raise EnvironmentUnfitError(
                f"executors die while starting: {how}", hint=f"see {slot.log_path}"
            )

    def _settle_dead_attempt(self, assignment: Assignment, how: str) -> None:
        with about(assignment.execution):
            _log.info("its executor died in phase %s: %s", assignment.phase, how)
            self._collect(assignment)
        last_word = self._deaths.settle(assignment, how)
        if last_word is None:
            self._events.attempt_ended(assignment.attempt, None)
            return
        self._reports.add(assignment.attempt, last_word.outcome, delay=last_word.delay)
        self._events.attempt_ended(assignment.attempt, last_word.outcome)

    def _collect(self, assignment: Assignment) -> None:
        try:
            self._directories.collect(assignment.execution_id)
        except OSError as error:  # the next start sweeps it
            _log.warning("cannot remove the directory of a dead attempt: %s", error)

    def _revive(self, slot: Slot, now: float) -> None:
        if slot.process is None and now >= slot.respawn_at and not self.is_stopping:
            slot.spawn()
        elif slot.retired_at is not None and now >= slot.retired_at + _STOP_GRACE_SECONDS:
            slot.kill()

    # -- stopping

    def _abandon_all(self, reason: str) -> None:
        """At the end of the drain: what did not finish is reported failed, and killed."""
        for slot in self._slots:
            assignment = slot.assignment
            if assignment is None:
                continue
            slot.cancel(self._clock.elapsed())
            slot.kill()
            self._hearing.take_last(slot)
            if slot.assignment is not assignment:  # it had ended in time
                continue
            slot.assignment = None
            self._collect(assignment)
            # Of a publish call that a server may still carry out, only the lease can tell.
            if not self._deaths.may_land(assignment):
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

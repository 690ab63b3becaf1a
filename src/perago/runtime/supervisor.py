"""The supervisor: the processes, descriptors and threads around `turn.py`, which decides.

Invariant: the loop waits for nothing but its own descriptors. Calls to the orchestrator are made
beside it (`calls.py`), and executors are read and told as far as that goes at once.
"""

from __future__ import annotations

import gc
import logging
import math
import multiprocessing
import secrets
import select
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import assert_never

from perago.domain.attempt import Attempt, AttemptSnapshot, decide_staleness
from perago.domain.deaths import count_executor_deaths
from perago.domain.errors import PeragoError
from perago.domain.events import EventHandler
from perago.domain.ids import ExecutionId
from perago.domain.outcome import Completed, Failed, Phase
from perago.domain.workflow import PolledTask
from perago.ports import AttemptDirectories, Clock, Orchestrator
from perago.runtime.actions import (
    Action,
    AppendLog,
    Beat,
    Collect,
    CountDeaths,
    HandBack,
    Kill,
    Retire,
    Run,
    SendPoll,
    SendReport,
    ShareLease,
    Spawn,
    Tell,
    TellReported,
)
from perago.runtime.attempt_logs import attempt_log_path
from perago.runtime.calls import Calls, CallThreads, Inbox
from perago.runtime.executor import ExecutorFactory
from perago.runtime.executor_process import CLOSED, ExecutorProcess
from perago.runtime.frames import NONCE_BYTES, BadFrameError
from perago.runtime.health import HealthBoard, HealthState
from perago.runtime.inputs import (
    BeatAnswered,
    Broken,
    DeathsCounted,
    Gone,
    HandBackAnswered,
    Heard,
    Input,
    PollAnswered,
    QuotaExceeded,
    ReportAnswered,
    Seen,
    SpawnFailed,
)
from perago.runtime.log_context import about
from perago.runtime.log_retention import LogRetention
from perago.runtime.messages import CleanedUp, Reported, RunAttempt, Stop
from perago.runtime.options import SupervisorOptions
from perago.runtime.quotas import QuotaWatch
from perago.runtime.reports import Report, ReportTaken
from perago.runtime.slot import Assignment
from perago.runtime.task_log import TaskLog
from perago.runtime.turn import STOP_GRACE_SECONDS, WorkerTurn

_log = logging.getLogger(__name__)

_LONGEST_TURN_SECONDS = 0.25
"""A death that no pipe tells of (a forked child holds it open) is noticed this soon."""

_CLOSED_GRACE_SECONDS = 1.0
"""A connection ends with its process. One that ends before is a body's doing."""

CallsFactory = Callable[[str, int], Calls]
"""Makes calls under a name, on up to so many threads."""

CheckCompleted = Callable[[Report, Completed], str | None]
"""Looks up the commit that a completed attempt names; says why it must not be reported."""


def _leave_as_it_is(_log: Path) -> None:
    pass


def _believe(_report: Report, _completed: Completed) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorPorts:
    """What a supervisor needs from outside."""

    orchestrator: Orchestrator
    directories: AttemptDirectories
    clock: Clock
    check_completed: CheckCompleted = _believe
    redact_log: Callable[[Path], object] = _leave_as_it_is
    """Removes secrets from a log whose executor died before it could."""


class Supervisor:
    """Runs executors until its caller is done, or it is told to stop."""

    def __init__(
        self,
        options: SupervisorOptions,
        *,
        ports: SupervisorPorts,
        factory: ExecutorFactory,
        events: EventHandler,
        make_calls: CallsFactory | None = None,
    ) -> None:
        self._options = options
        self._orchestrator = orchestrator = ports.orchestrator
        self._directories = ports.directories
        self._clock = ports.clock
        self._check_completed = ports.check_completed
        self._redact_log = ports.redact_log
        self._factory = factory
        self._events = events
        self.health: HealthBoard | None = None
        """Where it says how it is, once each turn, if anybody asks."""
        self._turn = WorkerTurn(
            options,
            random=Random(),  # noqa: S311 - jitter
            new_execution_id=lambda: ExecutionId(uuid.uuid4().hex),
        )
        self._context = multiprocessing.get_context("spawn")
        self._processes: dict[int, ExecutorProcess] = {}
        self._closed_at: dict[int, float] = {}
        """When the connection of an executor that still runs was seen to be closed."""
        self._inputs: list[Input] = []
        self._inbox = Inbox()
        self._descriptors = _Descriptors()
        executors = options.executors
        calls = make_calls or self._make_threads
        self._poll_calls = calls("poll", executors + 1)
        self._lease_calls = calls("lease", executors)
        self._report_calls = calls("report", min(2 * executors, 8))
        self._task_log = TaskLog(orchestrator, calls("log", 1))
        # What may take long, such as a large directory or log, and nobody waits for.
        self._chores = calls("chores", 1)
        self._open_chores = 0
        self._retention = LogRetention(
            options.logs_directory, self._chores, days=options.keep_logs_days
        )
        self._quotas = QuotaWatch(
            most_log_bytes=options.most_log_bytes, most_processes=options.most_processes
        )
        self._next_look_at_all = 0.0

    def _make_threads(self, name: str, threads: int) -> Calls:
        return CallThreads(self._inbox, name, threads=threads)

    # -- the caller's side

    def run(self, is_done: Callable[[], bool]) -> None:
        """Work until `is_done`, or until a requested stop has drained."""
        gc.freeze()  # what was imported stays: no garbage collection need look through it
        try:
            while not self._turn.is_finished(is_done, self._clock.elapsed()):
                self._make_turn()
        finally:
            self._end_executors()

    def request_stop(self) -> None:
        """Stop polling and drain; asked a second time, hurry. Safe in a signal handler."""
        self._turn.request_stop(self._clock.elapsed())
        self._inbox.wake()

    def fail_for_dead_worker(self, attempt: Attempt) -> None:
        """Report what an earlier worker held as failed, so that its retry need not wait for the
        lease.
        """
        self._turn.fail_for_dead_worker(attempt, self._clock.elapsed())

    @property
    def seconds_to_last_report(self) -> float:
        """How long what dead workers and executors held may still be waited for."""
        return self._turn.seconds_to_last_report(self._clock.elapsed())

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was requested."""
        return self._turn.is_stopping

    @property
    def is_out_of_work(self) -> bool:
        """Whether nothing runs and the last look at every queue found nothing."""
        return self._turn.is_out_of_work

    # -- one turn of the loop

    def _make_turn(self) -> None:
        self._tell_health()
        due = self._turn.next_due(self._clock.elapsed(), _LONGEST_TURN_SECONDS)
        # What one action led to at once, such as a refused start, is heard in the next turn.
        self._hear(0.0 if self._inputs else max(0.0, due - self._clock.elapsed()))
        now = self._clock.elapsed()
        self._retention.sweep_if_due(now)
        inputs, self._inputs = self._inputs, []
        for action in self._turn.step(inputs, now):
            self._carry_out(action)

    def _tell_health(self) -> None:
        """Say how the worker is, for those who probe it."""
        if self.health is None:
            return
        now, turn = self._clock.elapsed(), self._turn
        self.health.state = HealthState(
            turned_at=now,
            poller_turned_at=turn.polls.oldest_poll_began_at or now,
            answered_at=turn.polls.answered_at,
            poll_error=turn.polls.error,
            executors=len(turn.slots),
            executors_alive=len(self._processes),
            executors_ready=sum(slot.is_ready for slot in turn.slots),
            executors_busy=sum(slot.assignment is not None for slot in turn.slots),
            crash_looping=turn.crash_looping,
            is_draining=turn.is_stopping,
        )

    # -- hearing

    def _hear(self, seconds: float) -> None:
        """Wait until an executor or a call answers, and take what was said."""
        ready = self._descriptors.wait(self._inbox.fileno(), self._processes.values(), seconds)
        now = self._clock.elapsed()
        looks_at_all = now >= self._next_look_at_all
        if looks_at_all:
            self._next_look_at_all = now + _LONGEST_TURN_SECONDS
        for number, process in list(self._processes.items()):
            # Death first: what a dead executor had said is then complete.
            if (looks_at_all or process.sentinel in ready) and process.is_dead:
                self._hear_last(number, process)
                continue
            if process.pipe in ready:
                process.flush()
                self._hear_executor(number, process, now)
            if looks_at_all:
                self._look_at(number, process, now)
        if self._inbox.fileno() in ready:
            self._inbox.take_all()

    def _hear_executor(self, number: int, process: ExecutorProcess, now: float) -> None:
        said = process.read()
        self._inputs += [
            Heard(slot=number, message=message, memory_bytes=self._memory_after(message, process))
            for message in said.messages
        ]
        if said.broken == CLOSED:
            self._closed_at[number] = now
        elif said.broken is not None:
            self._inputs.append(Broken(slot=number, reason=said.broken))

    def _hear_last(self, number: int, process: ExecutorProcess) -> None:
        """Take all that a dead executor had said, and bury it."""
        log = self._executor_log(number)
        self._do_beside(lambda: self._redact_log(log))
        last_words, phase = tuple(process.read_last()), process.phase
        del self._processes[number]
        self._closed_at.pop(number, None)
        self._inputs.append(
            Gone(slot=number, how=process.bury(), phase=phase, last_words=last_words)
        )

    def _look_at(self, number: int, process: ExecutorProcess, now: float) -> None:
        """See what an executor does not say by itself."""
        closed_at = self._closed_at.get(number)
        if closed_at is not None and now >= closed_at + _CLOSED_GRACE_SECONDS:
            self._inputs.append(Broken(slot=number, reason=CLOSED))
            del self._closed_at[number]
        assignment = self._turn.slots[number].assignment
        if assignment is None:
            return
        if not assignment.is_heard_of and (phase := process.phase) is not None:
            execution_id = assignment.execution_id
            self._inputs.append(Seen(slot=number, execution_id=execution_id, phase=phase))
        # Killing what only cleans up would leave its staging behind, for a few lines.
        log = None if assignment.is_decided else self._log_path(assignment)
        if (reason := self._quotas.find_excess(process.pid, log, now)) is not None:
            self._inputs.append(
                QuotaExceeded(slot=number, execution_id=assignment.execution_id, reason=reason)
            )

    def _memory_after(self, message: object, process: ExecutorProcess) -> int:
        wants = self._options.recycle_above_bytes is not None
        return process.memory_bytes if wants and isinstance(message, CleanedUp) else 0

    def _note(self, heard: Input) -> None:
        """Have the next turn take this."""
        self._inputs.append(heard)

    # -- acting

    def _carry_out(self, action: Action) -> None:  # noqa: C901, PLR0912 - a case for each kind
        match action:
            case Tell(event=event):
                self._events.handle(event)
            case Spawn(slot=number):
                self._spawn(number)
            case Kill(slot=number):
                if number in self._processes:
                    self._processes[number].kill()
            case Retire(slot=number):
                self._processes[number].send(Stop())
            case Run(slot=number, assignment=assignment):
                self._run_attempt(number, assignment)
            case ShareLease(slot=number, deadline=deadline, poll_count=poll_count):
                if number in self._processes:
                    self._processes[number].cell.share(deadline, poll_count)
            case TellReported(slot=number, execution_id=execution_id, is_accepted=is_accepted):
                if number in self._processes:
                    told = Reported(execution_id=execution_id, is_accepted=is_accepted)
                    self._processes[number].send(told)
            case Collect(assignment=assignment):
                self._collect(assignment)
            case AppendLog(attempt=attempt, text=text):
                self._task_log.add(attempt, text)
            case SendPoll() | Beat() | CountDeaths() | SendReport() | HandBack():
                self._call(action)
            case _:
                assert_never(action)

    def _executor_log(self, number: int) -> Path:
        return self._options.logs_directory / f"executor-{number}.log"

    def _spawn(self, number: int) -> None:
        log = self._executor_log(number)
        try:
            process = ExecutorProcess(number, self._context, self._factory, log)
        except OSError as error:  # no memory, no process, no descriptor: it may pass
            self._inputs.append(SpawnFailed(slot=number, reason=error.strerror or str(error)))
        else:
            self._processes[number] = process

    def _run_attempt(self, number: int, assignment: Assignment) -> None:
        process, execution_id = self._processes[number], assignment.execution_id
        process.cell.enter(Phase.VALIDATE)
        run = RunAttempt(
            polled=assignment.polled,
            execution_id=execution_id,
            log_path=self._log_path(assignment),
            nonce=secrets.token_bytes(NONCE_BYTES),
            is_brief=assignment.is_brief,
        )
        try:
            process.send(run)
        except BadFrameError as error:
            reason = f"its input cannot be handed to an executor: {error}"
            refused = QuotaExceeded(slot=number, execution_id=execution_id, reason=reason)
            self._inputs.append(refused)

    def _log_path(self, assignment: Assignment) -> Path:
        logs = self._options.logs_directory
        return attempt_log_path(logs, assignment.attempt, assignment.execution_id)

    def _collect(self, assignment: Assignment) -> None:
        """Remove what a dead attempt left, beside the loop: it may be much."""
        log = self._log_path(assignment)

        def collect() -> None:
            self._redact_log(log)
            try:
                self._directories.collect(assignment.execution_id)
            except (OSError, PeragoError) as error:  # the next start sweeps it
                with about(assignment.execution):
                    _log.warning("cannot remove the directory of a dead attempt: %s", error)

        self._do_beside(collect)

    def _do_beside(self, chore: Callable[[], object]) -> None:
        def take(_: object) -> None:
            self._open_chores -= 1

        self._open_chores += 1
        self._chores.submit(chore, take)

    # -- calls to the orchestrator

    def _call(self, action: SendPoll | Beat | CountDeaths | SendReport | HandBack) -> None:
        orchestrator, hear = self._orchestrator, self._note
        match action:
            case SendPoll(poll=poll):

                def ask() -> list[PolledTask]:
                    return orchestrator.poll(
                        poll.names,
                        worker_id=self._options.worker_id,
                        count=poll.count,
                        wait_seconds=poll.wait_seconds,
                    )

                self._poll_calls.submit(
                    ask, lambda answer: hear(PollAnswered(poll=poll, answer=answer))
                )
            case Beat(assignment=assignment):
                attempt = assignment.attempt

                def beat() -> AttemptSnapshot:
                    orchestrator.heartbeat(attempt)
                    return orchestrator.snapshot(attempt.task_id)

                self._lease_calls.submit(
                    beat, lambda answer: hear(BeatAnswered(beat=action, answer=answer))
                )
            case CountDeaths(report=report):

                def count() -> int:
                    found = orchestrator.workflow(report.attempt.workflow_id)
                    return count_executor_deaths(found.tasks, report.attempt)

                self._report_calls.submit(
                    count, lambda answer: hear(DeathsCounted(report=report, answer=answer))
                )
            case SendReport(report=report):
                self._report_calls.submit(
                    lambda: self._report(report),
                    lambda answer: hear(ReportAnswered(report=report, answer=answer)),
                )
            case HandBack(attempt=handed_back):
                self._report_calls.submit(
                    lambda: orchestrator.hand_back(handed_back),
                    lambda error: hear(HandBackAnswered(attempt=handed_back, error=error)),
                )
            case _:
                assert_never(action)

    def _report(self, report: Report) -> ReportTaken:
        """Report an outcome; a completed one only after its commit was looked up."""
        outcome = report.outcome
        assert outcome is not None, "deaths are counted before they are reported"
        if isinstance(outcome, Completed):
            try:
                reason = self._check_completed(report, outcome)
            except PeragoError:
                # The store is away, and the orchestrator need not be: it must not lose patience.
                self._keep_lease(report.attempt)
                raise
            if reason is not None:
                outcome = Failed(reason=reason, phase=Phase.REPORT)
        stale = self._orchestrator.report(report.attempt, outcome)
        return ReportTaken(outcome=outcome, stale=stale)

    def _keep_lease(self, attempt: Attempt) -> None:
        """A heartbeat for an attempt whose report must wait, unless the delivery is stale."""
        snapshot = self._orchestrator.snapshot(attempt.task_id)
        if decide_staleness(attempt, snapshot) is None:
            self._orchestrator.heartbeat(attempt)

    # -- the end

    def _end_executors(self) -> None:
        """Let idle executors end by themselves; kill those that do not."""
        for number, process in self._processes.items():
            if self._turn.slots[number].assignment is None:
                process.send(Stop())
            else:  # only when an error broke the loop
                process.kill()
        deadline = self._clock.elapsed() + STOP_GRACE_SECONDS
        for process in self._processes.values():
            process.end(deadline - self._clock.elapsed())
        self._processes = {}
        while self._open_chores and (left := deadline - self._clock.elapsed()) > 0:
            self._descriptors.wait(self._inbox.fileno(), (), left)
            self._inbox.take_all()


class _Descriptors:
    """What the loop waits for; told anew at each turn, and set up again only when it changed.

    `multiprocessing.connection.wait` sets up everything each time, which is a large part of what a
    turn of a busy loop costs.
    """

    def __init__(self) -> None:
        self._wanted: tuple[tuple[int, int], ...] = ()
        self._poll = select.poll()

    def wait(self, inbox: int, processes: Iterable[ExecutorProcess], seconds: float) -> set[int]:
        """Those that have something to say, or take more; none when the time is over."""
        wanted = [(inbox, select.POLLIN)]
        for process in processes:
            wanted.append((process.sentinel, select.POLLIN))
            if process.is_listening:
                unsent = select.POLLOUT if process.has_unsent else 0
                wanted.append((process.pipe, select.POLLIN | unsent))
        if tuple(wanted) != self._wanted:
            self._wanted = tuple(wanted)
            self._poll = select.poll()
            for descriptor, events in self._wanted:
                self._poll.register(descriptor, events)
        return {descriptor for descriptor, _ in self._poll.poll(math.ceil(seconds * 1000))}

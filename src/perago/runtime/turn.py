"""One turn of a worker, as a pure step: what was heard goes in, what to do comes out.

No process, socket, clock or thread is in here, so that a test, or a simulator, can be the world
around it. `supervisor.py` is the real world: it carries out the actions and brings what it hears.

Invariants: an attempt is polled only when a slot is free for it, or about to be; a task id runs in
one slot at a time, however often it is delivered; what finds no slot is handed back; an attempt
whose lease is lost is told so before anything else, then killed, and reports nothing; the report of
an attempt is this worker's, never its executor's; where an attempt is, one tally knows.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import assert_never

from perago.domain.attempt import Attempt, AttemptSnapshot, decide_staleness
from perago.domain.budget import DEFAULT_HEARTBEAT_SECONDS, DEFAULT_MERGE_TIMEOUT_SECONDS
from perago.domain.errors import EnvironmentUnfitError, PeragoError
from perago.domain.events import (
    AttemptEnded,
    AttemptStarted,
    AttemptTally,
    Event,
    ExecutorDied,
    HeartbeatFailed,
    LeaseLost,
    PhaseEnded,
    PhaseStarted,
    Progressed,
    SparkProgressed,
    Transferred,
)
from perago.domain.execution import execution_of
from perago.domain.ids import ExecutionId, TaskId
from perago.domain.outcome import (
    WORKER_DIED,
    Completed,
    Failed,
    Outcome,
    Phase,
    decide_executor_death,
)
from perago.domain.workflow import PolledTask
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
from perago.runtime.leases import (
    LEASE_LOST,
    LeaseAction,
    decide_lease,
    postpone_beat,
    renew_lease,
    respawn_delay,
    start_lease,
)
from perago.runtime.log_context import about
from perago.runtime.messages import (
    BodyProgress,
    CleanedUp,
    Decided,
    FromAttempt,
    Moved,
    PhaseBegan,
    PhaseOver,
    Ready,
    SparkIsAt,
    Unfit,
)
from perago.runtime.options import SupervisorOptions
from perago.runtime.polling import PollPlan, PollSchedule
from perago.runtime.reports import Death, Report, Reports, ReportTaken
from perago.runtime.slot import Assignment, Slot

_log = logging.getLogger(__name__)

_STOPPED = "the worker was stopped"
"""Why what did not finish in a drain failed."""

_WAITING_SHARE = 4
_WAITING_SECONDS = 5.0
"""What waited so long for a slot, or for such a part of its lease, is handed back: its slot does
not come free, and another worker may have one."""

_BRIEF_SECONDS = 0.02
"""Less than a server takes to answer a poll when it has work."""
_NEWEST_WEIGHT = 0.3

_CANCEL_GRACE_SECONDS = 2.0
"""How long a body may react to `context.cancelled` before its process group is killed."""

STOP_GRACE_SECONDS = 10.0
"""How long an executor may take to clean up, or to end when it is asked to."""

_CLEAN_UP_SECONDS = 1800.0
"""An executor that still cleans up so long after the end of its attempt is frozen."""

_LAST_CALLS_SECONDS = 5.0
"""How long after the end of a drain the orchestrator may take to hear of it."""

_CRASH_LOOP_DEATHS = 3
_START_TRIES = 4
"""After so many executors that died before one was ready, something is wrong with all."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An attempt that was polled for a slot that is about to be free."""

    polled: PolledTask
    polled_at: float
    received_at: float

    @property
    def task_id(self) -> TaskId:
        return self.polled.attempt.task_id


class WorkerTurn:
    """What a worker knows, and what it decides from what it hears."""

    def __init__(
        self,
        options: SupervisorOptions,
        *,
        random: Random,
        new_execution_id: Callable[[], ExecutionId],
    ) -> None:
        self._options = options
        self._new_execution_id = new_execution_id
        self.slots = [Slot(number=number) for number in range(options.executors)]
        self.reports = Reports()
        self.polls = PollSchedule(
            PollPlan(
                task_names=tuple(options.heartbeats),
                wait_seconds=options.poll_wait_seconds,
                limits=options.task_limits,
            ),
            random,
        )
        self._actions: list[Action] = []
        self._waiting: list[_Waiting] = []
        self._usual_seconds: dict[str, float] = {}
        self._taken = 0
        self._handing_back = 0
        self._is_closed = False
        self._was_anybody_ready = False
        self._now = 0.0
        self.stop_deadline: float | None = None
        """When the drain ends; None until a stop was requested."""

    # -- the caller's side

    def step(self, inputs: Sequence[Input], now: float) -> list[Action]:
        """Take what was heard, do what is due by `now` on `Clock.elapsed`; say what to do."""
        self._now = now
        for one in inputs:
            self._take(one)
        for slot in self.slots:
            self._look_after(slot)
        if self.stop_deadline is not None and now >= self.stop_deadline:
            self._close()
            self._abandon_all()
            self.reports.forget_delayed(now)
        elif self.is_stopping:
            self._close()
        else:
            self._give_up_waiting()
            self._actions += [
                SendPoll(poll=poll) for poll in self.polls.ask(self.room, self._running, now)
            ]
        self._send_reports()
        actions, self._actions = self._actions, []
        return actions

    def next_due(self, now: float, longest: float) -> float:
        """When to turn again unless something is heard, on `Clock.elapsed`."""
        dues = [now + longest, *self.reports.dues]
        if self.stop_deadline is not None:
            if self.is_busy and now < self.stop_deadline:
                dues.append(self.stop_deadline)
        elif self.room > 0 and not self.polls.is_asking:
            dues.append(self.polls.due)
        for slot in self.slots:
            # The lease of what is being killed is kept by nobody.
            if slot.assignment is not None and not slot.is_ending:
                due = slot.assignment.lease_due
                dues += [] if due is None else [due]
            if not slot.is_started and not self.is_stopping:
                dues.append(slot.respawn_at)
        return min(dues)

    def request_stop(self, now: float) -> None:
        """Stop polling and drain; asked a second time, hurry. Safe in a signal handler."""
        if self.stop_deadline is None:
            self.stop_deadline = now + self._options.shutdown_grace_seconds
        else:
            self.stop_deadline = min(now, self.stop_deadline)

    def fail_for_dead_worker(self, attempt: Attempt, now: float) -> None:
        """Report what an earlier worker held, so that its retry need not wait for the lease. In
        which phase that worker died nobody knows; nor of what, so it counts as no executor that
        the task killed.
        """
        failed = Failed(reason=WORKER_DIED, phase=Phase.BODY)
        delay = self.seconds_to_land(attempt)
        self.reports.add(attempt, now=now, outcome=failed, delay=delay)

    def seconds_to_land(self, attempt: Attempt) -> float:
        """How long a publish call may still be carried out after its sender died."""
        if not self._options.publish_may_outlive_executor:
            return 0.0
        return self._options.merge_timeouts.get(attempt.task_name, DEFAULT_MERGE_TIMEOUT_SECONDS)

    def seconds_to_last_report(self, now: float) -> float:
        """How long what dead workers and executors held may still be waited for."""
        return max([0.0, *(due - now for due in self.reports.dues)])

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was requested."""
        return self.stop_deadline is not None

    @property
    def is_busy(self) -> bool:
        """Whether an attempt runs."""
        return any(slot.assignment is not None for slot in self.slots)

    @property
    def is_out_of_work(self) -> bool:
        """Whether nothing runs and the last look at every queue found nothing."""
        return not self.is_busy and self.polls.found_nothing

    @property
    def crash_looping(self) -> int:
        """How many executors died several times in a row and wait to be started again."""
        return sum(slot.deaths_in_a_row >= _CRASH_LOOP_DEATHS for slot in self.slots)

    @property
    def room(self) -> int:
        """How many attempts can be polled for. Where reports are not heard, fewer than there are
        slots: what a worker holds, running or over, is twice its slots at the most.
        """
        if self._is_closed:
            return 0
        room = sum(slot.is_idle or slot.is_finishing for slot in self.slots) - len(self._waiting)
        most = self._options.max_attempts
        if most is not None:
            room = min(room, most - self._taken - len(self._waiting))
        return room - max(0, self.reports.unheard - len(self.slots))

    def is_finished(self, is_done: Callable[[], bool], now: float) -> bool:
        """Whether the worker may end: it drained, took all that it ever will, or `is_done`."""
        if self.stop_deadline is not None and now >= self.stop_deadline + _LAST_CALLS_SECONDS:
            _log.warning("the orchestrator does not answer; what is left waits for its lease")
            return True
        if self.is_busy or not self.reports.is_empty:
            return False
        most = self._options.max_attempts
        has_had_enough = most is not None and self._taken >= most
        if self.is_stopping or has_had_enough or is_done():
            # What an open poll brings from now on is handed back, not lost.
            self._close()
            return not self.polls.is_asking and not self._handing_back and not self._actions
        return False

    # -- what was heard

    def _take(self, one: Input) -> None:  # noqa: C901, PLR0912 - a case for each kind
        match one:
            case Heard():
                self._hear(self.slots[one.slot], one)
            case Seen():
                self._see(self.slots[one.slot], one)
            case Broken(slot=number, reason=reason):
                self._break(self.slots[number], reason)
            case QuotaExceeded():
                self._end_for_quota(self.slots[one.slot], one)
            case Gone():
                self._bury(self.slots[one.slot], one)
            case SpawnFailed(slot=number, reason=reason):
                self._note_failed_spawn(self.slots[number], reason)
            case PollAnswered(poll=poll, answer=polled):
                tasks, event = self.polls.take(poll, polled, self._now)
                self._tell(event)
                if tasks:
                    self._receive(tasks, poll.began)
            case BeatAnswered(beat=beat, answer=snapshot):
                self._take_beat(beat, snapshot)
            case DeathsCounted(report=report, answer=deaths):
                self._take_deaths(report, deaths)
            case ReportAnswered(report=report, answer=taken):
                self._take_report(report, taken)
            case HandBackAnswered(attempt=attempt, error=error):
                self._handing_back -= 1
                if error is not None:
                    self._warn(
                        attempt, f"cannot be handed back, its lease decides: {error.message}"
                    )
            case _:
                assert_never(one)

    # -- deliveries

    def _receive(self, tasks: Sequence[PolledTask], polled_at: float) -> None:
        """Take what a poll brought that began at `polled_at`."""
        for polled in tasks:
            task_id = polled.attempt.task_id
            # Delivered again before it began: only the last delivery counts.
            self._waiting = [one for one in self._waiting if one.task_id != task_id]
            running, report = self._find_running(task_id), self.reports.find(task_id)
            if running is not None and running.assignment is not None:
                self._receive_again(running, running.assignment, polled)
            elif report is not None and report.polled is not None:
                self._receive_reported(report, report.polled, polled)
            elif self._is_closed:
                self._hand_back(polled.attempt)
            elif polled.refusal is not None:
                self._refuse(polled, polled.refusal)
            else:
                self._waiting.append(_Waiting(polled, polled_at, self._now))
        self._fill()

    def _receive_again(self, slot: Slot, assignment: Assignment, polled: PolledTask) -> None:
        """The task that runs in a slot was delivered again.

        The same work is run once: the running body is adopted by its new delivery. Other work
        under the same id, such as a rerun with another input, must not get the old body's result:
        that body is ended, and the delivery handed back until it is gone. Two never run side by
        side.
        """
        report = self.reports.find_of(assignment)
        # What is only cleaned up has nothing to report any more: nobody would hear of the delivery.
        is_reported = assignment.is_decided and report is None
        is_over = assignment.cancelled_at is not None or is_reported
        if not is_over and _is_same_work(assignment.polled, polled):
            self._warn(polled.attempt, "was delivered again while it runs")
            assignment.polled = polled
            self._share(slot, assignment)
            if report is not None:
                self.reports.adopt(report, polled)
            return
        self._warn(polled.attempt, "was delivered anew while an earlier delivery runs, which ends")
        self.polls.pause(self._now)  # the same poll would bring it again at once
        if not assignment.is_decided:
            if assignment.cancelled_at is None:
                self._give_up(slot, assignment, "its task was scheduled anew")
            self._kill(slot)
        self._hand_back(polled.attempt)

    def _receive_reported(self, report: Report, before: PolledTask, polled: PolledTask) -> None:
        if _is_same_work(before, polled):
            self._warn(polled.attempt, "was delivered again while its end is reported")
            self.reports.adopt(report, polled)
        else:
            self._warn(polled.attempt, "was delivered anew while its earlier end is reported")
            self.polls.pause(self._now)
            self._hand_back(polled.attempt)

    def _refuse(self, polled: PolledTask, reason: str) -> None:
        """Fail an attempt whose input no task can be given."""
        tally = AttemptTally(execution=execution_of(polled, self._new_execution_id()))
        outcome = Failed(reason=reason, phase=Phase.VALIDATE)
        self._taken += 1
        self._tell(AttemptStarted(execution=tally.execution))
        ended = AttemptEnded(attempt=polled.attempt, outcome=outcome, tally=tally, seconds=0.0)
        self._tell(ended)
        self.reports.add(polled.attempt, now=self._now, outcome=outcome, polled=polled)

    def _fill(self) -> None:
        """Put what waits into the slots that are idle; what no slot will take is handed back."""
        while self._waiting and (slot := self._pick_slot()) is not None:
            waiting = self._waiting.pop(0)
            self._begin(slot, waiting.polled, waiting.polled_at)
        expected = sum(slot.is_finishing for slot in self.slots)
        for waiting in self._waiting[expected:]:
            self._hand_back(waiting.polled.attempt)
        del self._waiting[expected:]

    def _give_up_waiting(self) -> None:
        """Hand back what waits for too long."""
        late = [
            waiting
            for waiting in self._waiting
            # The lease runs from the poll on, which may have waited at the server.
            if self._now - waiting.polled_at > waiting.polled.lease_seconds / _WAITING_SHARE
            or self._now - waiting.received_at > _WAITING_SECONDS
        ]
        for waiting in late:
            self._waiting.remove(waiting)
            self._hand_back(waiting.polled.attempt)

    def _pick_slot(self) -> Slot | None:
        # The one used last: its Spark is warm.
        idle = (slot for slot in self.slots if slot.is_idle)
        return max(idle, key=lambda slot: slot.last_used, default=None)

    def _begin(self, slot: Slot, polled: PolledTask, polled_at: float) -> None:
        attempt = polled.attempt
        usual = self._usual_seconds.get(attempt.task_name, math.inf)
        heartbeats = self._options.heartbeats
        slot.assignment = Assignment(
            polled=polled,
            tally=AttemptTally(execution=execution_of(polled, self._new_execution_id())),
            began=self._now,
            is_brief=usual < _BRIEF_SECONDS,
            lease=start_lease(
                polled_at=polled_at,
                lease_seconds=polled.lease_seconds,
                heartbeat_seconds=heartbeats.get(attempt.task_name, DEFAULT_HEARTBEAT_SECONDS),
                timeout_seconds=polled.timeout_seconds,
            ),
        )
        self._taken += 1
        self._share(slot, slot.assignment)
        self._do(Run(slot=slot.number, assignment=slot.assignment))
        self._tell(AttemptStarted(execution=slot.assignment.execution))

    def _close(self) -> None:
        """Take nothing more, and hand back what waits."""
        self._is_closed = True
        for waiting in self._waiting:
            self._hand_back(waiting.polled.attempt)
        self._waiting = []

    def _hand_back(self, attempt: Attempt) -> None:
        self._handing_back += 1
        self._do(HandBack(attempt=attempt))

    # -- what executors say

    def _hear(self, slot: Slot, heard: Heard) -> None:
        message = heard.message
        if isinstance(message, Unfit):
            if not self._was_anybody_ready:
                raise EnvironmentUnfitError(f"an executor cannot be built: {message.reason}")
            self._break(slot, f"it cannot be built: {message.reason}")
        elif isinstance(message, Ready):
            slot.is_ready = self._was_anybody_ready = True
            self._fill()
            self.polls.ask_soon(self._now)
        elif isinstance(message, CleanedUp):
            if slot.assignment is not None:
                self._end(slot, slot.assignment, heard.memory_bytes)
        elif slot.assignment is not None:
            self._hear_attempt(slot, slot.assignment, message)

    def _hear_attempt(self, slot: Slot, assignment: Assignment, message: FromAttempt) -> None:
        attempt, tally = assignment.attempt, assignment.tally
        match message:
            case PhaseBegan(phase=phase):
                self._enter(assignment, phase)
            case PhaseOver(phase=phase, seconds=seconds):
                tally.leave(phase, seconds)
                # Of a phase that was passed over, only its end would be told.
                if phase is tally.phase:
                    self._tell(PhaseEnded(attempt=attempt, phase=phase, seconds=seconds))
            case Moved(objects=objects, size=size):
                direction = tally.move(objects, size)
                moved = Transferred(
                    attempt=attempt, direction=direction, objects=objects, size=size
                )
                self._tell(moved)
            case BodyProgress(message=text, fraction=fraction):
                self._tell(Progressed(attempt=attempt, message=text, fraction=fraction))
                self._do(AppendLog(attempt=attempt, text=text))
            case SparkIsAt(progress=progress, line=line):
                self._tell(SparkProgressed(attempt=attempt, progress=progress, line=line))
                if line is not None:
                    self._do(AppendLog(attempt=attempt, text=line))
            case Decided():
                self._decide(slot, assignment, message)
            case CleanedUp():
                raise AssertionError("handled with the slot that it frees")
            case _:
                assert_never(message)

    def _see(self, slot: Slot, seen: Seen) -> None:
        """Take note of where an attempt is that was expected to be over, and has said nothing."""
        assignment = slot.assignment
        # It may have ended, and the next one begun, since somebody looked.
        if assignment is None or assignment.execution_id != seen.execution_id:
            return
        if not assignment.is_heard_of:
            assignment.seen_in = seen.phase
            self._show_phase(assignment, seen.phase)
            self._fill()  # what was polled for its slot need not wait for it

    def _enter(self, assignment: Assignment, phase: Phase) -> None:
        """Take note of a phase that the executor told; one that was seen is not told again."""
        if assignment.seen_in is None:
            self._show_phase(assignment, phase)
        elif assignment.seen_in is phase:
            assignment.seen_in = None

    def _show_phase(self, assignment: Assignment, phase: Phase) -> None:
        assignment.is_heard_of = True
        assignment.tally.phase = phase
        self._tell(PhaseStarted(attempt=assignment.attempt, phase=phase))

    def _decide(self, slot: Slot, assignment: Assignment, message: Decided) -> None:
        """Take the outcome of an attempt; from here on its report is this worker's."""
        if assignment.is_decided:
            return
        assignment.is_decided, assignment.decided_at = True, self._now
        assignment.tally.changes = message.changes
        if assignment.cancelled_at is not None:
            # Somebody else decides. It may clean up, though.
            self._tell_reported(slot, assignment, is_accepted=False)
            return
        outcome = message.outcome
        if assignment.failure is not None and not isinstance(outcome, Completed):
            # It failed because it was being ended: people want to read why.
            outcome = Failed(reason=assignment.failure, phase=assignment.phase)
        assignment.outcome = outcome
        self.reports.add(assignment.attempt, now=self._now, assignment=assignment, outcome=outcome)
        self.polls.ask_soon(self._now)

    def _end(self, slot: Slot, assignment: Assignment, memory_bytes: int) -> None:
        """The attempt is cleaned up, and its slot is free."""
        if not assignment.is_decided:
            self._break(slot, "an end without an outcome")
            return
        attempt = assignment.attempt
        slot.assignment = None
        slot.deaths_in_a_row = 0
        self._replace_those_that_died_at_work()
        slot.attempts_run += 1
        slot.last_used = self._now
        if isinstance(assignment.outcome, Completed):
            self._learn(attempt.task_name, self._now - assignment.began)
        self._tell_end(assignment, assignment.outcome)
        most_attempts = self._options.recycle_after_attempts
        most_bytes = self._options.recycle_above_bytes
        if (most_attempts is not None and slot.attempts_run >= most_attempts) or (
            most_bytes is not None and memory_bytes > most_bytes
        ):
            self._retire(slot)
        self._fill()
        self.polls.ask_soon(self._now)

    def _retire(self, slot: Slot) -> None:
        """Have an idle executor end, to be replaced by a fresh one."""
        if slot.is_idle:
            slot.retired_at = self._now
            self._do(Retire(slot=slot.number))

    def _learn(self, task_name: str, seconds: float) -> None:
        """An attempt of this task took so long in its slot."""
        usual = self._usual_seconds.get(task_name, seconds)
        self._usual_seconds[task_name] = usual + _NEWEST_WEIGHT * (seconds - usual)

    # -- leases

    def _look_after(self, slot: Slot) -> None:
        """Do what is due for one slot: start its process, end it, or keep its lease."""
        now, assignment = self._now, slot.assignment
        if not slot.is_started:
            if now >= slot.respawn_at and not self.is_stopping:
                slot.is_started, slot.is_ready, slot.is_ending = True, False, False
                slot.retired_at, slot.attempts_run = None, 0
                self._do(Spawn(slot=slot.number))
        elif slot.retired_at is not None and now >= slot.retired_at + STOP_GRACE_SECONDS:
            self._kill(slot)
        elif assignment is not None and assignment.cancelled_at is not None:
            # What cleans up already gets more time for it than what still works.
            grace = STOP_GRACE_SECONDS if assignment.is_decided else _CANCEL_GRACE_SECONDS
            if now >= assignment.cancelled_at + grace:
                self._kill(slot)
        elif assignment is not None and assignment.needs_lease and not slot.is_ending:
            self._keep_lease(slot, assignment)
        elif assignment is not None and assignment.is_decided:
            self._watch_clean_up(slot, assignment)

    def _watch_clean_up(self, slot: Slot, assignment: Assignment) -> None:
        """Count no more on a slot whose clean-up takes long, and end it when it takes too long."""
        took = self._now - assignment.decided_at
        if took >= _CLEAN_UP_SECONDS:
            self._break(slot, f"its clean-up took over {_CLEAN_UP_SECONDS:.0f} s")
        elif took > _WAITING_SECONDS and not assignment.is_slow:
            assignment.is_slow = True
            self._fill()  # what was polled for its slot need not wait for it

    def _keep_lease(self, slot: Slot, assignment: Assignment) -> None:
        match decide_lease(assignment.lease, self._now):
            case LeaseAction.WAIT:
                return
            case LeaseAction.BEAT:
                if not assignment.beat_is_under_way and self._now >= assignment.lease.next_beat:
                    assignment.beat_is_under_way = True
                    self._do(Beat(slot=slot.number, assignment=assignment, began=self._now))
            case LeaseAction.GIVE_UP:
                self._give_up(slot, assignment, "no heartbeat succeeded for the whole lease")
            case LeaseAction.TIME_OUT:
                self._give_up(slot, assignment, "its overall time is used up")

    def _take_beat(self, beat: Beat, answer: AttemptSnapshot | PeragoError) -> None:
        assignment, slot = beat.assignment, self.slots[beat.slot]
        assignment.beat_is_under_way = False
        if slot.assignment is not assignment or not assignment.needs_lease:
            return
        if isinstance(answer, PeragoError):
            attempt = assignment.attempt
            with about(assignment.execution):
                _log.warning("heartbeat of %s failed: %s", attempt.reference_name, answer.message)
            self._tell(HeartbeatFailed(attempt=attempt, reason=answer.message))
            assignment.lease = postpone_beat(assignment.lease, now=self._now)
            return
        # As it is now: the same task may have been delivered to this worker again meanwhile.
        reason = decide_staleness(assignment.attempt, answer)
        if reason is None:
            assignment.lease = renew_lease(assignment.lease, beat_began=beat.began)
            self._share(slot, assignment)
        else:
            self._give_up(slot, assignment, reason)

    def _give_up(self, slot: Slot, assignment: Assignment, reason: str) -> None:
        """Cancel an attempt: it publishes nothing from now on, and reports nothing."""
        attempt = assignment.attempt
        with about(assignment.execution):
            _log.warning("giving up %s: %s", attempt.reference_name, reason)
        assignment.cancelled_at = self._now
        self._share(slot, assignment)
        self._tell(LeaseLost(attempt=attempt, reason=reason))
        self._do(AppendLog(attempt=attempt, text=f"given up: {reason}"))

    def _share(self, slot: Slot, assignment: Assignment) -> None:
        is_lost = assignment.cancelled_at is not None or assignment.failure is not None
        deadline = LEASE_LOST if is_lost else assignment.lease.safe_until
        poll_count = assignment.attempt.poll_count
        self._do(ShareLease(slot=slot.number, deadline=deadline, poll_count=poll_count))

    # -- ends that nobody wants

    def _break(self, slot: Slot, reason: str) -> None:
        slot.broken = reason
        if slot.assignment is not None:
            with about(slot.assignment.execution):
                _log.warning("ending its executor: %s", reason)
        self._kill(slot)

    def _end_for_quota(self, slot: Slot, exceeded: QuotaExceeded) -> None:
        assignment = slot.assignment
        if assignment is None or assignment.execution_id != exceeded.execution_id:
            return
        self._fail(slot, assignment, exceeded.reason)

    def _fail(self, slot: Slot, assignment: Assignment, reason: str) -> None:
        """End an attempt that is not decided, and report it as failed when it is gone."""
        if assignment.needs_lease and assignment.failure is None:
            with about(assignment.execution):
                _log.warning("ending %s: %s", assignment.attempt.reference_name, reason)
            assignment.failure = reason
            self._share(slot, assignment)
        self._kill(slot)

    def _kill(self, slot: Slot) -> None:
        if slot.is_started and not slot.is_ending:
            slot.is_ending = True
            self._do(Kill(slot=slot.number))

    def _abandon_all(self) -> None:
        """At the end of the drain: what did not finish is killed, and reported as failed."""
        for slot in self.slots:
            if slot.assignment is not None:
                self._fail(slot, slot.assignment, _STOPPED)

    def _bury(self, slot: Slot, gone: Gone) -> None:
        slot.is_ending = True  # nothing that it said last makes room in it
        for message in gone.last_words:
            self._hear(slot, Heard(slot=slot.number, message=message))
        assignment, was_ready, was_retired = slot.assignment, slot.is_ready, slot.retired_at
        how = slot.broken or gone.how
        slot.assignment = slot.broken = None
        slot.is_started = slot.is_ready = False
        if was_retired is not None and assignment is None:
            slot.respawn_at = self._now
            return
        slot.died_at_work = assignment is not None
        self._back_off(slot)
        if assignment is not None:
            self._end_with_executor(assignment, gone.phase, how)
        else:
            self._tell(ExecutorDied(attempt=None, phase=None, how=how))
            self._refuse_hopeless_start(slot, how, was_ready=was_ready)
        self._fill()

    def _note_failed_spawn(self, slot: Slot, reason: str) -> None:
        """A process that could not be started is a death like others."""
        how = f"it could not be started: {reason}"
        slot.is_started = slot.died_at_work = False
        self._back_off(slot)
        self._tell(ExecutorDied(attempt=None, phase=None, how=how))
        self._refuse_hopeless_start(slot, how, was_ready=False)

    def _back_off(self, slot: Slot) -> None:
        slot.deaths_in_a_row += 1
        slot.respawn_at = self._now + respawn_delay(slot.deaths_in_a_row)

    def _replace_those_that_died_at_work(self) -> None:
        """An attempt ended: executors work here, so it is certain attempts that kill them.

        The back-off keeps a broken machine from failing all work that there is. Against one deadly
        task it would only take the slots from all other tasks. It is halved, not ended: where
        memory is short, the small attempts between the large ones end well, too.
        """
        for slot in self.slots:
            if slot.died_at_work and slot.deaths_in_a_row > 0:
                slot.deaths_in_a_row //= 2
                shorter = self._now + respawn_delay(slot.deaths_in_a_row)
                slot.respawn_at = min(slot.respawn_at, shorter)

    def _refuse_hopeless_start(self, slot: Slot, how: str, *, was_ready: bool) -> None:
        is_hopeless = slot.deaths_in_a_row >= _START_TRIES
        if is_hopeless and not (was_ready or self._was_anybody_ready):
            log = self._options.logs_directory / f"executor-{slot.number}.log"
            raise EnvironmentUnfitError(f"executors die while starting: {how}", hint=f"see {log}")

    def _end_with_executor(self, assignment: Assignment, phase: Phase | None, how: str) -> None:
        """Settle an attempt whose executor is gone."""
        attempt = assignment.attempt
        if phase is not None and phase is not assignment.phase:
            self._show_phase(assignment, phase)
        with about(assignment.execution):
            _log.info("its executor died in phase %s: %s", assignment.phase, how)
        self._do(Collect(assignment=assignment))
        self._tell(ExecutorDied(attempt=attempt, phase=assignment.phase, how=how))
        may_land = assignment.phase is Phase.PUBLISH and self.seconds_to_land(attempt) > 0
        if assignment.is_decided or assignment.cancelled_at is not None:
            # Its report goes on without it, or somebody else decides.
            self._tell_end(assignment, assignment.outcome)
        elif assignment.failure is None:
            death = Death(phase=assignment.phase, how=how)
            self.reports.add(attempt, now=self._now, assignment=assignment, death=death)
        elif may_land and self.is_stopping:
            # Of a publish call that a server may still carry out, only the lease can tell.
            self._tell_end(assignment, None)
        else:
            failed = Failed(reason=assignment.failure, phase=assignment.phase)
            self.reports.add(
                attempt,
                now=self._now,
                assignment=assignment,
                outcome=failed,
                delay=self.seconds_to_land(attempt) if may_land else 0.0,
            )
            # People who stop a worker gave the attempt up themselves; it did not break.
            self._tell_end(assignment, None if assignment.failure is _STOPPED else failed)

    # -- reports

    def _send_reports(self) -> None:
        for report in self.reports.take_due(self._now):
            self._do(
                CountDeaths(report=report) if report.outcome is None else SendReport(report=report)
            )

    def _take_deaths(self, report: Report, answer: int | PeragoError) -> None:
        """Decide about a death, now that the earlier ones of its step are counted."""
        death, assignment = report.death, report.after_beat_of
        assert death is not None, "only deaths are counted"
        if isinstance(answer, PeragoError):
            if not self.reports.try_again(report, answer, self._now) and assignment is not None:
                self._tell_end(assignment, None)
            return
        outcome = decide_executor_death(
            reference_name=report.attempt.reference_name,
            phase=death.phase,
            deaths=answer + 1,
            limit=self._options.death_limit,
            how=death.how,
        )
        may_land = death.phase is Phase.PUBLISH
        delay = self.seconds_to_land(report.attempt) if may_land else 0.0
        self.reports.decide(report, outcome, due=max(self._now, report.added_at + delay))
        if assignment is not None:
            self._tell_end(assignment, outcome)

    def _take_report(self, report: Report, answer: ReportTaken | PeragoError) -> None:
        slot = self._find_execution(report)
        if isinstance(answer, PeragoError):
            is_kept = self.reports.try_again(report, answer, self._now)
            if slot is not None and slot.assignment is not None and not is_kept:
                self._tell_reported(slot, slot.assignment, is_accepted=False)
            return
        if answer.stale is not None and self.reports.was_adopted(report):
            # It was: by the delivery that the report is for by now.
            self.reports.send_again(report, self._now)
            return
        self.reports.close(report)
        self.polls.ask_soon(self._now)
        if answer.stale is not None:
            self._warn(report.attempt, f"is not reported: {answer.stale}")
        if slot is not None and slot.assignment is not None:
            is_void = answer.stale is not None and isinstance(answer.outcome, Completed)
            slot.assignment.outcome = None if is_void else answer.outcome
            self._tell_reported(slot, slot.assignment, is_accepted=answer.stale is None)

    # -- small things

    @property
    def _running(self) -> Counter[str]:
        """How many attempts of each task this worker holds; empty where nobody asks."""
        if not self._options.task_limits:
            return Counter()
        names = [waiting.polled.attempt.task_name for waiting in self._waiting]
        names += [
            slot.assignment.attempt.task_name for slot in self.slots if slot.assignment is not None
        ]
        return Counter(names)

    def _find_running(self, task_id: TaskId) -> Slot | None:
        for slot in self.slots:
            if slot.assignment is not None and slot.assignment.attempt.task_id == task_id:
                return slot
        return None

    def _find_execution(self, report: Report) -> Slot | None:
        for slot in self.slots:
            if slot.assignment is not None and slot.assignment is report.after_beat_of:
                return slot
        return None

    def _tell_reported(self, slot: Slot, assignment: Assignment, *, is_accepted: bool) -> None:
        self._do(
            TellReported(
                slot=slot.number, execution_id=assignment.execution_id, is_accepted=is_accepted
            )
        )

    def _tell_end(self, assignment: Assignment, outcome: Outcome | None) -> None:
        ended = AttemptEnded(
            attempt=assignment.attempt,
            outcome=outcome,
            tally=assignment.tally,
            seconds=self._now - assignment.began,
        )
        self._tell(ended)

    def _tell(self, event: Event) -> None:
        self._actions.append(Tell(event=event))

    def _do(self, action: Action) -> None:
        self._actions.append(action)

    def _warn(self, attempt: Attempt, what: str) -> None:
        with about(attempt):
            _log.warning("%s %s", attempt.reference_name, what)


def _is_same_work(running: PolledTask, again: PolledTask) -> bool:
    """Whether a second delivery of a task id asks for just what runs already."""
    return (
        running.attempt.scheduled_time == again.attempt.scheduled_time
        and running.attempt.retry_count == again.attempt.retry_count
        and running.input == again.input
        and running.refusal == again.refusal
    )

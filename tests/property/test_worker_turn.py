"""A worker's turn in any world: deliveries, deaths, silence, nonsense and time, in any order.

The model knows what is outside: processes, what they were given, what the orchestrator was asked.
Each action of each step is checked against it, and in the end the world answers everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from perago.domain.attempt import Attempt, AttemptSnapshot, AttemptStatus
from perago.domain.errors import (
    NotFoundInOrchestratorError,
    OrchestratorError,
    OrchestratorUnavailableError,
    PeragoError,
)
from perago.domain.events import AttemptEnded, AttemptStarted, Event, LeaseLost
from perago.domain.ids import ExecutionId, TaskId, WorkerId, WorkflowId
from perago.domain.outcome import Completed, Failed, Outcome, Phase
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
from perago.runtime.leases import LEASE_LOST
from perago.runtime.messages import (
    CleanedUp,
    Decided,
    FromExecutor,
    PhaseBegan,
    PhaseOver,
    Ready,
)
from perago.runtime.options import SupervisorOptions
from perago.runtime.polling import Poll
from perago.runtime.reports import GIVE_UP_SECONDS, Report, ReportTaken
from perago.runtime.slot import Assignment
from perago.runtime.turn import WorkerTurn

SLOTS = 2
TASKS = 4
"""So few task ids that the same one is delivered again and again."""

DONE = Completed(output={})
BROKE = Failed(reason="it broke", phase=Phase.BODY)
SILENCE = OrchestratorUnavailableError("no answer")
ERRORS: list[PeragoError] = [
    SILENCE,
    OrchestratorError("not with this key"),
    NotFoundInOrchestratorError("there is no such task"),
]
OPTIONS = SupervisorOptions(
    worker_id=WorkerId("me"),
    executors=SLOTS,
    heartbeats={"task": 5.0},
    merge_timeouts={"task": 20.0},
    logs_directory=Path("unused"),
    publish_may_outlive_executor=True,
    recycle_after_attempts=3,
    task_limits={"task": SLOTS + 1},
)

Delivery = tuple[TaskId, int]


@dataclass(slots=True)
class Process:
    """An executor that the model imagines."""

    is_ready: bool = False
    is_killed: bool = False
    is_retired: bool = False
    assignment: Assignment | None = None
    is_decided: bool = False


class WorkerWorld(RuleBasedStateMachine):
    """The world around one worker."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.executions = 0
        self.turn = WorkerTurn(OPTIONS, random=Random(7), new_execution_id=self.new_execution_id)
        self.processes: dict[int, Process] = {}
        self.polls: list[Poll] = []
        self.beats: list[Beat] = []
        self.counts: list[Report] = []
        self.sent: list[tuple[Report, Delivery]] = []
        self.hand_backs: list[Attempt] = []
        self.newest: dict[TaskId, PolledTask] = {}
        self.fates: dict[Delivery, str | None] = {}
        self.given_up: set[ExecutionId] = set()
        self.started: Counter[Attempt] = Counter()
        self.ended: Counter[Attempt] = Counter()
        self.known: list[Report] = []
        self.may_vanish: list[Report] = []
        """Reports about which an error was just answered."""
        self.step()
        self.be_ready()  # a start at which none ever is ends the worker, and should
        self.deliver(numbers=[0], kind="again", which=0)

    def new_execution_id(self) -> ExecutionId:
        self.executions += 1
        return ExecutionId(f"{self.executions:032x}")

    # -- steps, and what each action must be like

    def step(self, *inputs: Input, after: float = 0.0) -> None:
        self.now += after
        self.may_vanish = [
            one.report
            for one in inputs
            if isinstance(one, ReportAnswered | DeathsCounted)
            and isinstance(one.answer, PeragoError)
        ]
        closed = [
            one.report
            for one in inputs
            if isinstance(one, ReportAnswered) and isinstance(one.answer, ReportTaken)
        ]
        actions = self.turn.step(inputs, self.now)
        for action in actions:
            self.check(action)
        if any(isinstance(action, SendPoll) for action in actions):
            self.check_polls()
        self.check_reports(closed)

    def check(self, action: Action) -> None:  # noqa: C901, PLR0912 - a case for each kind
        match action:
            case Spawn(slot=slot):
                assert slot not in self.processes
                assert not self.turn.is_stopping
                self.processes[slot] = Process()
            case Kill(slot=slot):
                # What died in this very step needs no killing, and gets none.
                assert not self.processes[slot].is_killed
                self.processes[slot].is_killed = True
            case Retire(slot=slot):
                assert self.processes[slot].assignment is None
                self.processes[slot].is_retired = True
            case Run(slot=slot, assignment=assignment):
                self.check_run(self.processes[slot], assignment)
            case ShareLease(slot=slot, deadline=deadline):
                current = self.processes[slot].assignment
                if current is not None and current.execution_id in self.given_up:
                    assert deadline == LEASE_LOST
            case TellReported(slot=slot, execution_id=execution_id):
                process = self.processes.get(slot)  # of what it said last, it may be gone
                current = None if process is None else process.assignment
                assert current is None or current.execution_id == execution_id
            case SendPoll(poll=poll):
                self.polls.append(poll)
            case Beat(slot=slot, assignment=assignment):
                assert self.processes[slot].assignment is assignment
                assert not self.processes[slot].is_decided, "it could undo the report"
                assert all(beat.assignment is not assignment for beat in self.beats)
                self.beats.append(action)
            case CountDeaths(report=report):
                assert report not in self.counts
                self.counts.append(report)
            case SendReport(report=report):
                self.check_report(report)
            case HandBack(attempt=attempt):
                self.end(delivery_of(attempt), "handed back")
                self.hand_backs.append(attempt)
            case Tell(event=event):
                self.check_event(event)
            case Collect() | AppendLog():
                pass

    def check_run(self, process: Process, assignment: Assignment) -> None:
        assert process.is_ready
        assert not process.is_killed
        assert not process.is_retired
        assert process.assignment is None
        task_id = assignment.attempt.task_id
        others = [one.assignment for one in self.processes.values() if one.assignment]
        assert all(one.attempt.task_id != task_id for one in others), "it runs twice"
        assert self.fates[delivery_of(assignment.attempt)] is None
        process.assignment, process.is_decided = assignment, False

    def check_report(self, report: Report) -> None:
        assert all(report is not other for other, _ in self.sent), "it is sent twice"
        assert report.outcome is not None
        assignment = report.after_beat_of
        if assignment is not None:
            assert assignment.execution_id not in self.given_up
            assert all(beat.assignment is not assignment for beat in self.beats)
        delivery = delivery_of(report.attempt)
        assert self.fates[delivery] is None
        self.sent.append((report, delivery))

    def check_event(self, event: Event) -> None:
        match event:
            case AttemptStarted(execution=execution):
                self.started[execution.attempt] += 1
            case AttemptEnded(attempt=attempt, outcome=outcome):
                self.ended[attempt] += 1
                # What a stop ends is told as given up, and reported all the same.
                if outcome is None and self.turn.reports.find(attempt.task_id) is None:
                    self.fates[delivery_of(attempt)] = self.fates[delivery_of(attempt)] or "left"
            case LeaseLost(attempt=attempt):
                self.end(delivery_of(attempt), "given up")
                (lost,) = (
                    one.assignment
                    for one in self.processes.values()
                    if one.assignment and one.assignment.attempt == attempt
                )
                self.given_up.add(lost.execution_id)
            case _:
                pass

    def check_polls(self) -> None:
        room = sum(slot.is_idle or slot.is_finishing for slot in self.turn.slots)
        held = sum(poll.count for poll in self.polls) + len(self.turn._waiting)
        assert held <= room

    def check_reports(self, closed: list[Report]) -> None:
        """A report is there until it is heard, or there is a reason that it is not."""
        now_known = list(self.turn.reports._all)
        for report in self.known:
            if report in now_known or report in closed:
                continue
            is_over = self.turn.stop_deadline is not None and self.now >= self.turn.stop_deadline
            is_old = self.now - report.added_at > GIVE_UP_SECONDS - 30.0
            assert report in self.may_vanish or is_over
            assert is_over or is_old or self.last_error is ERRORS[2]
            self.fates[delivery_of(report.attempt)] = "dropped"
        self.known = now_known

    last_error: PeragoError | None = None

    def end(self, delivery: Delivery, fate: str) -> None:
        assert self.fates[delivery] is None, f"it was {self.fates[delivery]} already"
        self.fates[delivery] = fate

    # -- deliveries

    @precondition(lambda self: self.polls)
    @rule(
        numbers=st.lists(st.integers(0, TASKS - 1), min_size=1, max_size=3, unique=True),
        kind=st.sampled_from(["again", "again", "again", "anew", "other input", "refused"]),
        which=st.integers(0),
    )
    def deliver(self, numbers: list[int], kind: str, which: int) -> None:
        tasks = [self.next_delivery(TaskId(f"t{number}"), kind) for number in numbers]
        for one in tasks:
            self.newest[one.attempt.task_id] = one
            self.fates[delivery_of(one.attempt)] = None
        poll = self.polls.pop(which % len(self.polls))
        self.step(PollAnswered(poll=poll, answer=tasks))
        for one in tasks:
            is_taken = self.fates[delivery_of(one.attempt)] != "handed back"
            if is_taken or not self.holds(one.attempt.task_id):
                self.supersede(one.attempt)

    def holds(self, task_id: TaskId) -> bool:
        """Whether an earlier delivery of a task runs, or its end is still to be heard."""
        running = [one.assignment for one in self.processes.values() if one.assignment]
        is_running = any(one.attempt.task_id == task_id for one in running)
        return is_running or self.turn.reports.find(task_id) is not None

    def supersede(self, taken: Attempt) -> None:
        """What was taken for a delivery is no longer there for those before it."""
        for (task_id, number), fate in self.fates.items():
            if task_id == taken.task_id and number < (taken.poll_count or 0) and fate is None:
                self.fates[task_id, number] = "superseded"

    def next_delivery(self, task_id: TaskId, kind: str) -> PolledTask:
        last = self.newest.get(task_id)
        if last is None:
            attempt = Attempt(
                workflow_id=WorkflowId("w"),
                task_id=task_id,
                task_name="task",
                reference_name=task_id,
                worker_id=WorkerId("me"),
                poll_count=1,
                scheduled_time=1,
            )
            last = PolledTask(attempt=attempt, input={}, lease_seconds=60.0)
        else:
            attempt = replace(last.attempt, poll_count=(last.attempt.poll_count or 0) + 1)
        match kind:
            case "anew":
                attempt = replace(attempt, scheduled_time=(attempt.scheduled_time or 0) + 1)
            case "other input":
                number = attempt.poll_count
                return replace(last, attempt=attempt, input={"n": number}, refusal=None)
            case "refused":
                return replace(last, attempt=attempt, refusal="too deep")
            case _:
                pass
        return replace(last, attempt=attempt, refusal=None)

    @precondition(lambda self: self.polls)
    @rule(answer=st.none() | st.sampled_from(ERRORS))
    def bring_nothing(self, answer: PeragoError | None) -> None:
        self.step(PollAnswered(poll=self.polls.pop(0), answer=answer or []))

    @precondition(lambda self: self.hand_backs)
    @rule(error=st.none() | st.sampled_from(ERRORS))
    def answer_hand_back(self, error: PeragoError | None) -> None:
        self.step(HandBackAnswered(attempt=self.hand_backs.pop(0), error=error))

    # -- executors

    def those(self, wanted: Callable[[Process], bool]) -> list[int]:
        return [slot for slot, process in self.processes.items() if wanted(process)]

    def running(self, which: int) -> tuple[int, Process, Assignment]:
        """One of those that have an attempt."""
        slots = self.those(has_attempt)
        slot = slots[which % len(slots)]
        assignment = self.processes[slot].assignment
        assert assignment is not None
        return slot, self.processes[slot], assignment

    @precondition(lambda self: self.those(is_starting))
    @rule()
    def be_ready(self) -> None:
        slot = self.those(is_starting)[0]
        self.processes[slot].is_ready = True
        self.step(Heard(slot=slot, message=Ready()))

    @precondition(lambda self: self.those(is_starting))
    @rule()
    def refuse_to_start(self) -> None:
        slot = self.those(is_starting)[0]
        del self.processes[slot]
        self.step(SpawnFailed(slot=slot, reason="no memory"))

    @precondition(lambda self: self.those(has_attempt))
    @rule(which=st.integers(0), phase=st.sampled_from(Phase), how=st.sampled_from("bes"))
    def enter(self, which: int, phase: Phase, how: str) -> None:
        slot, _, assignment = self.running(which)
        match how:
            case "b":
                self.step(Heard(slot=slot, message=PhaseBegan(phase=phase)))
            case "e":
                self.step(Heard(slot=slot, message=PhaseOver(phase=phase, seconds=1.0)))
            case _:
                self.step(Seen(slot=slot, execution_id=assignment.execution_id, phase=phase))

    @precondition(lambda self: self.those(has_attempt))
    @rule(which=st.integers(0), outcome=st.sampled_from([DONE, BROKE]), cleans_up=st.booleans())
    def decide(self, which: int, outcome: Outcome, cleans_up: bool) -> None:
        slot, process, _ = self.running(which)
        process.is_decided = True
        words: list[FromExecutor] = [Decided(outcome=outcome)]
        if cleans_up:
            words.append(CleanedUp())
            process.assignment = None
        self.step(*(Heard(slot=slot, message=word) for word in words))

    @precondition(lambda self: self.those(has_attempt))
    @rule(which=st.integers(0))
    def clean_up(self, which: int) -> None:
        """Also without an outcome, which ends the executor."""
        slot, process, _ = self.running(which)
        was_decided = process.is_decided
        if was_decided:
            process.assignment = None
        self.step(Heard(slot=slot, message=CleanedUp()))
        assert was_decided or process.is_killed

    @precondition(lambda self: self.processes)
    @rule(which=st.integers(0))
    def send_junk(self, which: int) -> None:
        slot = list(self.processes)[which % len(self.processes)]
        self.step(Broken(slot=slot, reason="its connection carried junk"))
        assert self.processes[slot].is_killed

    @precondition(lambda self: self.those(has_attempt))
    @rule(which=st.integers(0), is_other=st.booleans())
    def take_too_much(self, which: int, is_other: bool) -> None:
        slot, process, assignment = self.running(which)
        execution_id = ExecutionId("f" * 32) if is_other else assignment.execution_id
        was_killed = process.is_killed
        self.step(QuotaExceeded(slot=slot, execution_id=execution_id, reason="too much"))
        assert process.is_killed is (was_killed or not is_other)

    @precondition(lambda self: self.processes)
    @rule(
        which=st.integers(0),
        phase=st.none() | st.sampled_from(Phase),
        last_words=st.sampled_from(
            [(), (Decided(outcome=DONE),), (Decided(outcome=DONE), CleanedUp()), (CleanedUp(),)]
        ),
    )
    def die(self, which: int, phase: Phase | None, last_words: tuple[FromExecutor, ...]) -> None:
        slot = list(self.processes)[which % len(self.processes)]
        words = last_words if has_attempt(self.processes[slot]) else ()
        self.bury(slot, phase, words)

    def bury(
        self, slot: int, phase: Phase | None = None, words: tuple[FromExecutor, ...] = ()
    ) -> None:
        del self.processes[slot]
        self.step(Gone(slot=slot, how="killed", phase=phase, last_words=words))

    # -- the orchestrator

    @precondition(lambda self: self.beats)
    @rule(answer=st.sampled_from(["well", "well", "canceled", "silence"]), which=st.integers(0))
    def answer_beat(self, answer: Literal["well", "canceled", "silence"], which: int) -> None:
        beat = self.beats.pop(which % len(self.beats))
        found: AttemptSnapshot | PeragoError = SILENCE
        if answer != "silence":
            attempt = beat.assignment.attempt
            is_well = answer == "well"
            found = AttemptSnapshot(
                status=AttemptStatus.IN_PROGRESS if is_well else AttemptStatus.CANCELED,
                workflow_id=attempt.workflow_id,
                task_id=attempt.task_id,
                retry_count=attempt.retry_count,
                poll_count=attempt.poll_count,
            )
        self.step(BeatAnswered(beat=beat, answer=found))

    @precondition(lambda self: self.sent)
    @rule(stale=st.sampled_from([None, None, "it was delivered again"]), which=st.integers(0))
    def answer_report(self, stale: str | None, which: int) -> None:
        report, delivery = self.sent.pop(which % len(self.sent))
        assert report.outcome is not None
        # One that was accepted is the end for the delivery that came meanwhile, too.
        for one in {delivery, delivery_of(report.attempt)} if stale is None else {delivery}:
            self.fates[one] = self.fates[one] or "reported"
        answer = ReportTaken(outcome=report.outcome, stale=stale)
        self.step(ReportAnswered(report=report, answer=answer))

    @precondition(lambda self: self.sent)
    @rule(error=st.sampled_from(ERRORS))
    def fail_report(self, error: PeragoError) -> None:
        report, _ = self.sent.pop(0)
        self.last_error = error
        self.step(ReportAnswered(report=report, answer=error))

    @precondition(lambda self: self.counts)
    @rule(answer=st.integers(0, 3) | st.sampled_from(ERRORS))
    def answer_count(self, answer: int | PeragoError) -> None:
        report = self.counts.pop(0)
        self.last_error = answer if isinstance(answer, PeragoError) else None
        self.step(DeathsCounted(report=report, answer=answer))

    # -- time, and the end

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.25, 1.0, 3.0, 10.0, 30.0]))
    def pass_time(self, seconds: float) -> None:
        self.step(after=seconds)

    @precondition(lambda self: not self.turn.is_stopping)
    @rule(chance=st.integers(0, 19))
    def stop(self, chance: int) -> None:
        if chance == 19:
            self.turn.request_stop(self.now)
        self.step()

    @invariant()
    def no_task_runs_twice(self) -> None:
        running = Counter(
            slot.assignment.attempt.task_id for slot in self.turn.slots if slot.assignment
        )
        assert all(count == 1 for count in running.values())
        assert len(self.turn._waiting) <= SLOTS

    @invariant()
    def the_loop_may_rest(self) -> None:
        assert self.turn.next_due(self.now, 0.25) > self.now

    @invariant()
    def nothing_ends_twice(self) -> None:
        assert all(self.ended[attempt] <= 1 for attempt in self.ended)

    def teardown(self) -> None:
        """The world answers: the worker comes to rest, and nothing was forgotten."""
        for _ in range(60):
            self.answer_everything()
            if self.is_at_rest():
                break
        assert self.is_at_rest()
        assert {delivery: fate for delivery, fate in self.fates.items() if fate is None} == {}
        assert sum(self.started.values()) == sum(self.ended.values())
        is_finished = self.turn.is_finished(lambda: True, self.now)
        self.step()
        assert is_finished or self.turn.is_finished(lambda: True, self.now)

    def answer_everything(self) -> None:
        while self.hand_backs:
            self.answer_hand_back(error=None)
        while self.beats:
            self.answer_beat(answer="well", which=0)
        while self.counts:
            self.answer_count(answer=0)
        while self.sent:
            self.answer_report(stale=None, which=0)
        for slot, process in list(self.processes.items()):
            if process.is_killed or process.is_retired:
                self.bury(slot)
        while self.those(is_starting):
            self.be_ready()
        while self.those(has_attempt):
            self.decide(which=0, outcome=DONE, cleans_up=True)
        polls, self.polls = self.polls, []
        self.turn.polls.due = self.now + 1e9  # a world in which nothing new happens
        self.step(*(PollAnswered(poll=poll, answer=[]) for poll in polls), after=6.0)

    def is_at_rest(self) -> bool:
        calls = (self.polls, self.beats, self.counts, self.sent, self.hand_backs)
        is_idle = not self.turn.is_busy and self.turn.reports.is_empty and not self.turn._waiting
        return is_idle and not any(calls)


def is_starting(process: Process) -> bool:
    return not process.is_ready and not process.is_killed


def has_attempt(process: Process) -> bool:
    return process.assignment is not None


def delivery_of(attempt: Attempt) -> Delivery:
    return attempt.task_id, attempt.poll_count or 0


def test_whatever_happens_around_a_worker() -> None:
    run_state_machine_as_test(
        WorkerWorld, settings=settings(max_examples=60, stateful_step_count=30)
    )


@pytest.mark.torture
def test_whatever_happens_around_a_worker_for_long() -> None:
    run_state_machine_as_test(
        WorkerWorld, settings=settings(max_examples=1_000, stateful_step_count=50)
    )

"""A world around a `WorkerTurn`, in which nothing happens but what a test says.

The scene takes the actions of each step, keeps what is still to be answered, and answers it when a
test says so. Time stands still between steps unless a step says how long after the last it comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from perago.domain.attempt import Attempt, AttemptSnapshot, AttemptStatus
from perago.domain.errors import OrchestratorUnavailableError, PeragoError
from perago.domain.events import AttemptEnded, Event, PhaseEnded, PhaseStarted
from perago.domain.ids import ExecutionId, TaskId, WorkerId, WorkflowId
from perago.domain.outcome import Completed, Failed, JsonObject, Outcome, Phase
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
    DeathsCounted,
    Gone,
    HandBackAnswered,
    Heard,
    Input,
    PollAnswered,
    QuotaExceeded,
    ReportAnswered,
)
from perago.runtime.messages import CleanedUp, Decided, FromExecutor, PhaseBegan, Ready
from perago.runtime.options import SupervisorOptions
from perago.runtime.polling import Poll
from perago.runtime.reports import Report, ReportTaken
from perago.runtime.slot import Assignment
from perago.runtime.turn import WorkerTurn

LEASE, BEAT, MERGE_SECONDS = 60.0, 5.0, 100.0

OPTIONS = SupervisorOptions(
    worker_id=WorkerId("me"),
    executors=1,
    heartbeats={"task": BEAT},
    merge_timeouts={"task": MERGE_SECONDS},
    logs_directory=Path("unused"),
    publish_may_outlive_executor=True,
)

DONE = Completed(output={"result": {}})
BROKE = Failed(reason="it broke", phase=Phase.BODY)
SILENCE = OrchestratorUnavailableError("no answer")


def polled(
    name: str,
    delivery: int = 1,
    *,
    lease_seconds: float = LEASE,
    timeout_seconds: float | None = None,
    task_input: JsonObject | None = None,
    scheduled_time: int | None = None,
    retry_count: int = 0,
    refusal: str | None = None,
    task: str = "task",
) -> PolledTask:
    attempt = Attempt(
        workflow_id=WorkflowId("w"),
        task_id=TaskId(name),
        task_name=task,
        reference_name=name,
        worker_id=WorkerId("me"),
        poll_count=delivery,
        scheduled_time=scheduled_time,
        retry_count=retry_count,
    )
    return PolledTask(
        attempt=attempt,
        input=task_input or {},
        lease_seconds=lease_seconds,
        timeout_seconds=timeout_seconds,
        refusal=refusal,
    )


class TurnScene:
    """A worker whose executors are imagined, and ready unless a test says otherwise."""

    def __init__(
        self, slots: int = 1, options: SupervisorOptions = OPTIONS, *, is_ready: bool = True
    ) -> None:
        self.options = replace(options, executors=slots)
        self.now = 1000.0
        self.executions = 0
        self.turn = WorkerTurn(
            self.options, random=Random(7), new_execution_id=self._new_execution_id
        )
        self.actions: list[Action] = []
        """All of the last step."""
        self.polls: list[Poll] = []
        """Sent and not answered, as are the next."""
        self.beats: list[Beat] = []
        self.counts: list[Report] = []
        self.reports: list[Report] = []
        self.hand_backs: list[Attempt] = []
        self.handed_back: list[str] = []
        """Every delivery that was handed back, as "task/delivery"."""
        self.cells: dict[int, tuple[float, int | None]] = {}
        """What each executor sees of its lease."""
        self.events: list[Event] = []
        self.log: list[str] = []
        self.killed: list[int] = []
        self.spawned: list[int] = []
        self.retired: list[int] = []
        self.runs: list[str] = []
        self.collected: list[str] = []
        self.told_reported: list[bool] = []
        if is_ready:
            self.step()
            self.step(*(Heard(slot=number, message=Ready()) for number in range(slots)))

    def _new_execution_id(self) -> ExecutionId:
        self.executions += 1
        return ExecutionId(f"{self.executions:032x}")

    # -- time and inputs

    def step(self, *inputs: Input, after: float = 0.0) -> list[Action]:
        """One turn, so long after the last one."""
        self.now += after
        self.actions = self.turn.step(inputs, self.now)
        for action in self.actions:
            self._note(action)
        return self.actions

    def _note(self, action: Action) -> None:  # noqa: C901, PLR0912 - a case for each kind
        match action:
            case Spawn(slot=slot):
                self.spawned.append(slot)
            case Kill(slot=slot):
                self.killed.append(slot)
            case Retire(slot=slot):
                self.retired.append(slot)
            case Run(assignment=assignment):
                self.runs.append(assignment.attempt.task_id)
            case ShareLease(slot=slot, deadline=deadline, poll_count=poll_count):
                self.cells[slot] = (deadline, poll_count)
            case TellReported(is_accepted=is_accepted):
                self.told_reported.append(is_accepted)
            case Collect(assignment=assignment):
                self.collected.append(assignment.execution_id)
            case SendPoll(poll=poll):
                self.polls.append(poll)
            case Beat():
                self.beats.append(action)
            case CountDeaths(report=report):
                self.counts.append(report)
            case SendReport(report=report):
                self.reports.append(report)
            case HandBack(attempt=attempt):
                self.hand_backs.append(attempt)
                self.handed_back.append(f"{attempt.task_id}/{attempt.poll_count}")
            case AppendLog(text=text):
                self.log.append(text)
            case Tell(event=event):
                self.events.append(event)

    def receive(self, *tasks: PolledTask, ago: float = 0.0) -> None:
        """A poll that was sent so long ago brings these, also where none was to be expected: a
        server may give more than it was asked for.
        """
        if self.polls and not ago:
            poll = self.polls.pop(0)
        else:
            poll = Poll(names=("task",), count=0, wait_seconds=0.0, began=self.now - ago)
            self.turn.polls._open.append(poll)
        self.step(PollAnswered(poll=poll, answer=list(tasks)))

    def says(
        self, *messages: FromExecutor, slot: int = 0, after: float = 0.0, memory: int = 0
    ) -> None:
        """An executor sends messages."""
        heard = [Heard(slot=slot, message=one, memory_bytes=memory) for one in messages]
        self.step(*heard, after=after)

    def enter(self, phase: Phase, slot: int = 0) -> None:
        self.says(PhaseBegan(phase=phase), slot=slot)

    def decide(self, outcome: Outcome = DONE, slot: int = 0) -> None:
        """The attempt in a slot ended, and is being reported."""
        self.says(Decided(outcome=outcome), slot=slot)

    def clean_up(self, slot: int = 0, memory: int = 0) -> None:
        self.says(CleanedUp(), slot=slot, memory=memory)

    def die(
        self,
        *last_words: FromExecutor,
        slot: int = 0,
        phase: Phase | None = None,
        how: str = "killed by SIGKILL",
    ) -> None:
        """The process in a slot is over; `phase` is what shared memory says."""
        self.step(Gone(slot=slot, how=how, phase=phase, last_words=last_words))

    def exceed(self, reason: str, slot: int = 0) -> None:
        """The attempt in a slot takes too much."""
        execution_id = self.assignment(slot).execution_id
        self.step(QuotaExceeded(slot=slot, execution_id=execution_id, reason=reason))

    def pass_time(self, seconds: float, by: float = 1.0) -> None:
        """Turn again and again."""
        end = self.now + seconds
        while self.now < end:
            self.step(after=min(by, end - self.now))

    # -- answers

    def answer_beat(
        self, snapshot: AttemptSnapshot | PeragoError | None = None, after: float = 0.0
    ) -> None:
        """By default as a server that still counts on the attempt."""
        beat = self.beats.pop(0)
        answer = snapshot or snapshot_of(beat.assignment.attempt)
        self.step(BeatAnswered(beat=beat, answer=answer), after=after)

    def answer_report(self, stale: str | None = None, outcome: Outcome | None = None) -> Report:
        report = self.reports.pop(0)
        told = outcome or report.outcome
        assert told is not None
        self.step(ReportAnswered(report=report, answer=ReportTaken(outcome=told, stale=stale)))
        return report

    def fail_report(self, error: PeragoError = SILENCE) -> None:
        self.step(ReportAnswered(report=self.reports.pop(0), answer=error))

    def answer_count(self, deaths: int | PeragoError = 0) -> None:
        self.step(DeathsCounted(report=self.counts.pop(0), answer=deaths))

    def answer_hand_backs(self, error: PeragoError | None = None) -> None:
        answers = [HandBackAnswered(attempt=one, error=error) for one in self.hand_backs]
        self.hand_backs = []
        self.step(*answers)

    def answer_polls(self, answer: PeragoError | None = None) -> None:
        """All that are open, with nothing or an error."""
        polls, self.polls = self.polls, []
        self.step(*(PollAnswered(poll=one, answer=answer or []) for one in polls))

    # -- looks

    def assignment(self, slot: int = 0) -> Assignment:
        assignment = self.turn.slots[slot].assignment
        assert assignment is not None
        return assignment

    def running(self) -> list[str]:
        """The task in each slot, or nothing."""
        return [
            slot.assignment.attempt.task_id if slot.assignment else "" for slot in self.turn.slots
        ]

    def waiting(self) -> list[str]:
        return [one.task_id for one in self.turn._waiting]

    def told(self) -> list[str]:
        """Phases and ends since the last look."""
        events, self.events = self.events, []
        return [word for event in events if (word := _word_of(event)) is not None]

    def ends(self) -> list[AttemptEnded]:
        return [event for event in self.events if isinstance(event, AttemptEnded)]

    def is_finished(self, *, is_done: bool = False) -> bool:
        return self.turn.is_finished(lambda: is_done, self.now)


def snapshot_of(
    attempt: Attempt, status: AttemptStatus = AttemptStatus.IN_PROGRESS
) -> AttemptSnapshot:
    return AttemptSnapshot(
        status=status,
        workflow_id=attempt.workflow_id,
        task_id=attempt.task_id,
        retry_count=attempt.retry_count,
        worker_id=attempt.worker_id,
        poll_count=attempt.poll_count,
        scheduled_time=attempt.scheduled_time,
    )


def outcomes(reports: Sequence[Report]) -> list[Outcome | None]:
    return [report.outcome for report in reports]


def _word_of(event: Event) -> str | None:
    match event:
        case PhaseStarted(phase=phase):
            return f"{phase} begins"
        case PhaseEnded(phase=phase):
            return f"{phase} ends"
        case AttemptEnded():
            return f"over: {event.status}"
        case _:
            return None

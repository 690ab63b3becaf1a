"""Orchestrators that each break one sentence of the port, in a way somebody might really write."""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from perago.adapters.embedded.orchestrator.engine.decide import Report
from perago.adapters.embedded.orchestrator.engine.instance import Instance, TaskRecord
from perago.domain.attempt import Attempt, AttemptSnapshot, AttemptStatus
from perago.domain.ids import TaskId, WorkerId, WorkflowId
from perago.domain.outcome import Completed, Failed, JsonValue, Outcome, Phase, TerminalFailure
from perago.domain.workflow import PolledTask, WorkflowState
from perago.ports.clock import Clock
from perago.testing.memory_orchestrator import MemoryInstances, MemoryOrchestrator


class Tampering(MemoryOrchestrator):
    """Reaches into the state that it should leave to the engine."""

    def tamper(self, attempt: Attempt, change: Callable[[TaskRecord], TaskRecord]) -> None:
        instance = self.instances.instances[attempt.workflow_id]
        self.replace_tasks(
            instance,
            [
                change(record) if record.task_id == attempt.task_id else record
                for record in instance.tasks
            ],
        )

    def replace_tasks(self, instance: Instance, tasks: Sequence[TaskRecord]) -> None:
        self.instances.instances[instance.id] = replace(instance, tasks=tuple(tasks))


class ReportsByReferenceName(MemoryOrchestrator):
    """A stale report completes whatever attempt of the step is current."""

    def report(self, attempt: Attempt, outcome: Outcome) -> str | None:
        tasks = super().workflow(attempt.workflow_id).tasks
        same_step = [
            task.attempt for task in tasks if task.attempt.logical_task == attempt.logical_task
        ]
        return super().report(same_step[-1], outcome)


class TakesAnyReport(MemoryOrchestrator):
    """Lets a report end the task id, whoever holds it by now: as a Conductor server does."""

    def report(self, attempt: Attempt, outcome: Outcome) -> str | None:
        self._decide(
            lambda: self._of_task(attempt.task_id), Report(task_id=attempt.task_id, outcome=outcome)
        )
        return None


class ComparesNoSchedule(MemoryOrchestrator):
    """Takes the task id, the worker and the poll count for the whole identity of a delivery."""

    def report(self, attempt: Attempt, outcome: Outcome) -> str | None:
        return super().report(replace(attempt, scheduled_time=None), outcome)


class KeepsStalenessToItself(MemoryOrchestrator):
    """Refuses a stale report, and calls it accepted."""

    def report(self, attempt: Attempt, outcome: Outcome) -> str | None:
        super().report(attempt, outcome)
        return None


class CallsARepetitionStale(MemoryOrchestrator):
    """Whoever did not hear the first answer is told that the report is not wanted."""

    def report(self, attempt: Attempt, outcome: Outcome) -> str | None:
        status = self.snapshot(attempt.task_id).status
        super().report(attempt, outcome)
        return f"its status is {status}" if status.is_terminal else None


class ForgetsTheSchedule(MemoryOrchestrator):
    """Hands out a task id without saying when it was scheduled."""

    def poll(
        self, task_names: Sequence[str], *, worker_id: WorkerId, count: int, wait_seconds: float
    ) -> list[PolledTask]:
        tasks = super().poll(
            task_names, worker_id=worker_id, count=count, wait_seconds=wait_seconds
        )
        return [replace(task, attempt=replace(task.attempt, scheduled_time=None)) for task in tasks]


class ForgetsTheRetryChain(Tampering):
    """Keeps of a retry that it is one, not of what."""

    def report(self, attempt: Attempt, outcome: Outcome) -> str | None:
        answer = super().report(attempt, outcome)
        instance = self.instances.instances[attempt.workflow_id]
        self.replace_tasks(
            instance, [replace(record, retried_task_id=None) for record in instance.tasks]
        )
        return answer


class HandBackSchedulesAnew(Tampering):
    """Takes what was handed back for a new attempt."""

    def hand_back(self, attempt: Attempt) -> None:
        super().hand_back(attempt)
        now = self._clock.now()
        self.tamper(attempt, lambda record: replace(record, scheduled_at=now))


class CallsAnythingARoot(MemoryOrchestrator):
    """Takes every instance for an outermost one, without a look."""

    def find_root(self, workflow_id: WorkflowId) -> WorkflowId:
        return workflow_id


class LastReportWins(Tampering):
    """A second report replaces the first."""

    def report(self, attempt: Attempt, outcome: Outcome) -> str | None:
        answer = super().report(attempt, outcome)
        if isinstance(outcome, Completed):
            output = outcome.output
            self.tamper(attempt, lambda record: replace(record, output=output))
        return answer


class HeartbeatRevives(Tampering):
    """A heartbeat puts a timed-out attempt back in progress."""

    def heartbeat(self, attempt: Attempt) -> None:
        super().heartbeat(attempt)
        now = self._clock.now()
        self.tamper(
            attempt,
            lambda record: (
                replace(record, status=AttemptStatus.IN_PROGRESS, updated_at=now)
                if record.status is AttemptStatus.TIMED_OUT
                else record
            ),
        )


class HeartbeatDoesNothing(MemoryOrchestrator):
    """The lease runs out whatever the worker says."""

    def heartbeat(self, attempt: Attempt) -> None:
        self.snapshot(attempt.task_id)


class HeartbeatExtendsEverything(Tampering):
    """A heartbeat also pushes the overall time-out back."""

    def heartbeat(self, attempt: Attempt) -> None:
        super().heartbeat(attempt)
        self.tamper(attempt, lambda record: replace(record, started_at=record.updated_at))


class HandsBackToWhoeverAsks(MemoryOrchestrator):
    """Does not look who holds the attempt."""

    def hand_back(self, attempt: Attempt) -> None:
        super().hand_back(replace(attempt, worker_id=None, poll_count=None))


class HandBackIsAFailure(MemoryOrchestrator):
    """Costs a retry."""

    def hand_back(self, attempt: Attempt) -> None:
        self.report(attempt, Failed(reason="handed back", phase=Phase.PREPARE))


class RetryKeepsTaskId(Tampering):
    """A retry is the same task id again, as if an id were a step."""

    def report(self, attempt: Attempt, outcome: Outcome) -> str | None:
        answer = super().report(attempt, outcome)
        instance = self.instances.instances[attempt.workflow_id]
        *before, last = instance.tasks
        if last.retried_task_id is not None:
            gone = replace(before[-1], task_id=TaskId(f"old-{before[-1].task_id}"))
            kept = replace(last, task_id=last.retried_task_id)
            self.replace_tasks(instance, [*before[:-1], gone, kept])
        return answer


class TerminalFailureIsRetried(MemoryOrchestrator):
    """Knows one kind of failure only."""

    def report(self, attempt: Attempt, outcome: Outcome) -> str | None:
        if isinstance(outcome, TerminalFailure):
            outcome = Failed(reason=outcome.reason, phase=outcome.phase)
        return super().report(attempt, outcome)


class RetriesAtOnce(Tampering):
    """Forgets the delay before a retry."""

    def report(self, attempt: Attempt, outcome: Outcome) -> str | None:
        answer = super().report(attempt, outcome)
        instance = self.instances.instances[attempt.workflow_id]
        self.replace_tasks(
            instance,
            [replace(record, available_at=record.scheduled_at) for record in instance.tasks],
        )
        return answer


class HandsOutTwice(Tampering):
    """Leaves what it handed out in the queue."""

    def poll(
        self, task_names: Sequence[str], *, worker_id: WorkerId, count: int, wait_seconds: float
    ) -> list[PolledTask]:
        tasks = super().poll(
            task_names, worker_id=worker_id, count=count, wait_seconds=wait_seconds
        )
        for task in tasks:
            self.tamper(
                task.attempt, lambda record: replace(record, status=AttemptStatus.SCHEDULED)
            )
        return tasks


class UnlockedInstances(MemoryInstances):
    """Reads and writes without a lock, with a gap in which others can do the same."""

    @contextmanager
    def writing(self) -> Iterator[None]:
        yield

    def next_available(
        self, task_names: Sequence[str], now: datetime
    ) -> tuple[WorkflowId, TaskId] | None:
        found = super().next_available(task_names, now)
        time.sleep(0.002)
        return found

    def update(self, before: Instance, after: Instance) -> None:
        self.instances[after.id] = after


class HandsOutWithoutLock(MemoryOrchestrator):
    """Chooses an attempt and takes it in two steps."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._instances = UnlockedInstances()


class NewestFirst(MemoryOrchestrator):
    """A stack instead of a queue."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._instances = _Stack()


class _Stack(MemoryInstances):
    def next_available(
        self, task_names: Sequence[str], now: datetime
    ) -> tuple[WorkflowId, TaskId] | None:
        for instance in reversed(self.instances.values()):
            for record in instance.tasks:
                if (
                    record.status is AttemptStatus.SCHEDULED
                    and record.task_name in task_names
                    and record.available_at <= now
                ):
                    return instance.id, record.task_id
        return None


class StringifiesExpressions(MemoryOrchestrator):
    """Treats every expression as text."""

    def poll(
        self, task_names: Sequence[str], *, worker_id: WorkerId, count: int, wait_seconds: float
    ) -> list[PolledTask]:
        tasks = super().poll(
            task_names, worker_id=worker_id, count=count, wait_seconds=wait_seconds
        )
        return [
            replace(task, input={key: _as_text(value) for key, value in task.input.items()})
            for task in tasks
        ]


def _as_text(value: JsonValue) -> JsonValue:
    return value if isinstance(value, dict) else str(value)


class CachesSnapshots(MemoryOrchestrator):
    """Asks once and remembers."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._seen: dict[TaskId, AttemptSnapshot] = {}

    def snapshot(self, task_id: TaskId) -> AttemptSnapshot:
        if task_id not in self._seen:
            self._seen[task_id] = super().snapshot(task_id)
        return self._seen[task_id]


class TerminateLeavesAttemptsOpen(MemoryOrchestrator):
    """Ends the instance, but not what is going on in it."""

    def terminate(self, workflow_id: WorkflowId, reason: str) -> None:
        before = self.instances.instances[workflow_id].tasks
        super().terminate(workflow_id, reason)
        after = self.instances.instances[workflow_id]
        self.instances.instances[workflow_id] = replace(after, tasks=before)


class ForgetsRetriedAttempts(MemoryOrchestrator):
    """Shows the last attempt of each step only."""

    def workflow(self, workflow_id: WorkflowId) -> WorkflowState:
        state = copy.copy(super().workflow(workflow_id))
        last = {task.attempt.reference_name: task for task in state.tasks}
        return replace(state, tasks=tuple(last.values()))


# Each with a test that must fail on it.
BROKEN: dict[type[MemoryOrchestrator], str] = {
    TakesAnyReport: "test_a_report_does_not_end_what_another_worker_holds[failed]",
    ComparesNoSchedule: "test_a_report_does_not_end_the_same_task_id_scheduled_anew[completed]",
    KeepsStalenessToItself: "test_the_report_of_a_lost_lease_is_told_to_be_stale[failed]",
    CallsARepetitionStale: "test_the_same_report_again_is_accepted[completed]",
    ForgetsTheSchedule: "test_a_delivery_carries_when_its_task_id_was_scheduled",
    ForgetsTheRetryChain: "test_a_retry_names_the_attempt_that_it_retries",
    CallsAnythingARoot: "test_an_instance_that_nobody_started_as_a_part_is_its_own_root",
    HandBackSchedulesAnew: "test_a_hand_back_keeps_the_schedule",
    ReportsByReferenceName: "test_a_stale_report_is_answered_and_ignored",
    LastReportWins: "test_a_second_report_is_ignored",
    HeartbeatRevives: "test_a_stale_heartbeat_is_answered_and_ignored",
    HeartbeatDoesNothing: "test_a_heartbeat_starts_the_lease_anew",
    HeartbeatExtendsEverything: "test_heartbeats_do_not_extend_the_overall_time_out",
    HandsBackToWhoeverAsks: "test_a_stale_giver_takes_nothing_from_the_new_holder",
    HandBackIsAFailure: "test_an_attempt_that_is_handed_back_goes_to_whoever_polls_next",
    RetryKeepsTaskId: "test_a_failure_is_retried_as_a_new_attempt",
    TerminalFailureIsRetried: "test_a_terminal_failure_is_not_retried",
    RetriesAtOnce: "test_a_retry_waits_for_its_delay",
    HandsOutTwice: "test_an_attempt_is_handed_out_once",
    HandsOutWithoutLock: "test_an_attempt_is_handed_out_once_to_many_at_a_time",
    NewestFirst: "test_oldest_first",
    StringifiesExpressions: "test_a_text_that_is_one_expression_keeps_the_type",
    CachesSnapshots: "test_a_snapshot_is_never_from_a_cache",
    TerminateLeavesAttemptsOpen: "test_terminating_cancels_what_is_open",
    ForgetsRetriedAttempts: "test_an_instance_lists_every_attempt_oldest_first",
}

"""The supervisor around its turn: real connections and deaths, played executors, time that stands.

Each turn of the loop is made by the test. What the orchestrator is asked it answers at once.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from perago import Pipeline, RetryPolicy, TaskControls, TimeoutPolicy, task
from perago.adapters.localfs.home import make_logs_directory
from perago.authoring import build_task_definition
from perago.domain.attempt import Attempt, AttemptSnapshot, AttemptStatus
from perago.domain.errors import (
    EnvironmentUnfitError,
    OrchestratorUnavailableError,
    StoreUnavailableError,
)
from perago.domain.events import AttemptEnded, Event, ExecutorDied, HeartbeatFailed, PhaseStarted
from perago.domain.ids import ExecutionId, TaskId, WorkerId, WorkflowId
from perago.domain.outcome import Completed, Failed, JsonObject, Outcome, Phase
from perago.domain.spark_progress import SparkProgress
from perago.domain.workflow import PolledTask, TaskState
from perago.ports import AttemptDirectory
from perago.runtime.attempt_logs import attempt_log_path
from perago.runtime.calls import CallThreads
from perago.runtime.health import HealthBoard, HealthState
from perago.runtime.inputs import Broken
from perago.runtime.leases import LEASE_LOST
from perago.runtime.messages import (
    BodyProgress,
    CleanedUp,
    Decided,
    FromExecutor,
    Moved,
    PhaseBegan,
    PhaseOver,
    Ready,
    Reported,
    RunAttempt,
    SparkIsAt,
    Stop,
    Unfit,
)
from perago.runtime.options import SupervisorOptions
from perago.runtime.reports import Report
from perago.runtime.supervisor import Supervisor, SupervisorPorts
from perago.testing import FakeClock, MemoryOrchestrator
from tests.unit.runtime.inline_calls import InlineCalls
from tests.unit.runtime.played_executors import PlayedExecutor, PlayedExecutors, no_kit

BEAT, LEASE, MERGE_SECONDS = 10.0, 60.0, 100.0
DONE = Completed(output={"result": {}})
OVER = (Decided(outcome=DONE), CleanedUp())


class Params(BaseModel):
    text: str = ""


class Result(BaseModel):
    """Nothing."""


@task(
    "step",
    owner_email="data@example.com",
    controls=TaskControls(
        retry=RetryPolicy(count=0), timeout=TimeoutPolicy(response_seconds=int(LEASE))
    ),
)
def step(params: Params) -> Result:
    return Result()


class WatchedOrchestrator(MemoryOrchestrator):
    """Remembers what was asked of it, and may be silent."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.is_silent = False
        self.text_bytes = 0
        """So long is the text that every attempt gets, whatever its run was started with."""
        self.beats: list[TaskId] = []
        self.reports: list[tuple[TaskId, Outcome]] = []

    def poll(
        self, task_names: Sequence[str], *, worker_id: WorkerId, count: int, wait_seconds: float
    ) -> list[PolledTask]:
        found = super().poll(
            task_names, worker_id=worker_id, count=count, wait_seconds=wait_seconds
        )
        text = "x" * self.text_bytes
        if not text:
            return found
        return [replace(polled, input={"params": {"text": text}}) for polled in found]

    def heartbeat(self, attempt: Attempt) -> None:
        self._answer()
        self.beats.append(attempt.task_id)
        super().heartbeat(attempt)

    def snapshot(self, task_id: TaskId) -> AttemptSnapshot:
        self._answer()
        return super().snapshot(task_id)

    def report(self, attempt: Attempt, outcome: Outcome) -> str | None:
        self._answer()
        self.reports.append((attempt.task_id, outcome))
        return super().report(attempt, outcome)

    def _answer(self) -> None:
        if self.is_silent:
            raise OrchestratorUnavailableError("no answer")


class RememberedDirectories:
    """Attempt directories that are only named."""

    def __init__(self) -> None:
        self.collected: list[ExecutionId] = []
        self.error: OSError | None = None

    def create(self, attempt: Attempt, execution_id: ExecutionId) -> AttemptDirectory:
        raise AssertionError("executors do that")

    def collect(self, execution_id: ExecutionId) -> None:
        if self.error is not None:
            raise self.error
        self.collected.append(execution_id)

    def sweep(self) -> list[Attempt]:
        return []


class Events:
    def __init__(self) -> None:
        self.heard: list[Event] = []

    def handle(self, event: Event) -> None:
        self.heard.append(event)


class Scene:
    """A supervisor whose executors a test plays."""

    def __init__(self, logs: Path, **options: Any) -> None:
        self.clock = FakeClock()
        self.orchestrator = WatchedOrchestrator(self.clock)
        self.orchestrator.register_task(build_task_definition(step))
        self.orchestrator.register_workflow(Pipeline.of_task(step).workflow_definition())
        self.directories = RememberedDirectories()
        self.events = Events()
        self.executors = PlayedExecutors()
        self.reason: str | None = None
        """Why a completed attempt's commit is not believed."""
        self.store_is_away = False
        self.redacted: list[Path] = []
        defaults = SupervisorOptions(
            worker_id=WorkerId("me"),
            executors=1,
            heartbeats={step.name: BEAT},
            merge_timeouts={step.name: MERGE_SECONDS},
            logs_directory=logs,
            publish_may_outlive_executor=True,
        )
        self.options = replace(defaults, **options)
        self.supervisor = Supervisor(
            self.options,
            ports=SupervisorPorts(
                orchestrator=self.orchestrator,
                directories=self.directories,
                clock=self.clock,
                check_completed=self._check,
                redact_log=self.redacted.append,
            ),
            factory=no_kit,
            events=self.events,
            make_calls=lambda _name, _threads: InlineCalls(),
        )
        self.supervisor._context = cast(Any, self.executors)

    def _check(self, _report: Report, _completed: Completed) -> str | None:
        if self.store_is_away:
            raise StoreUnavailableError("no lakeFS server answers")
        return self.reason

    # -- the world

    def turn(self, after: float = 0.0) -> None:
        self.clock.advance(after)
        self.supervisor._inbox.wake()  # it must not wait for what a test will not say
        self.supervisor._make_turn()

    def turns(self, count: int = 4) -> None:
        """As many as it takes until nothing more happens."""
        for _ in range(count):
            self.turn()

    def start_executors(self) -> None:
        self.turn()
        for played in self.executors.started:
            played.say(Ready())
        self.turns()

    def submit(self, text: str = "") -> WorkflowId:
        """Have an attempt scheduled, and let the pause between polls pass."""
        workflow = self.orchestrator.start_workflow(
            step.name, workflow_input={"params": {"text": text}}
        )
        self.turn(after=0.3)
        self.turns()
        return workflow

    def run(self, text: str = "", slot: int = 0) -> RunAttempt:
        """Have an attempt begin in a slot, whose executor is told."""
        self.submit(text)
        told = self.play(slot).hear()
        assert isinstance(told, RunAttempt)
        return told

    def say(self, *messages: FromExecutor, slot: int = 0) -> None:
        self.play(slot).say(*messages)
        self.turns()

    def play(self, slot: int = 0) -> PlayedExecutor:
        """The executor that is in a slot."""
        pid = self.supervisor._processes[slot].pid
        return next(one for one in self.executors.started if one.process and one.process.pid == pid)

    def enter(self, phase: Phase, slot: int = 0) -> None:
        self.supervisor._processes[slot].cell.enter(phase)
        self.say(PhaseBegan(phase=phase), slot=slot)

    def die(self, slot: int = 0) -> None:
        self.play(slot).die()
        self.turn(after=0.25)
        self.turns()

    # -- looks

    def tasks(self) -> list[TaskState]:
        """Of every workflow, oldest first."""
        found = self.orchestrator.workflows()
        return [one for workflow in reversed(found) for one in workflow.tasks]

    def statuses(self) -> list[AttemptStatus]:
        return [one.status for one in self.tasks()]

    def reason_of(self, number: int = 0) -> str:
        return self.tasks()[number].reason or ""

    def executor_deaths(self) -> list[str]:
        return [event.how for event in self.events.heard if isinstance(event, ExecutorDied)]

    def close(self) -> None:
        for process in self.supervisor._processes.values():
            process.kill()
        for process in self.supervisor._processes.values():
            process.bury()
        for played in self.executors.started:
            played.close()


MakeScene = Callable[..., Scene]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeScene]:
    scenes: list[Scene] = []

    def build(**options: Any) -> Scene:
        scene = Scene(tmp_path, **options)
        scenes.append(scene)
        scene.start_executors()
        return scene

    yield build
    for scene in scenes:
        scene.close()


@pytest.fixture
def scene(make: MakeScene) -> Scene:
    return make()


# -- an attempt


def test_an_attempt_runs_and_is_reported(scene: Scene) -> None:
    told = scene.run(text="hello")
    assert told.polled.input == {"params": {"text": "hello"}}
    assert told.log_path == attempt_log_path(
        scene.options.logs_directory, told.polled.attempt, told.execution_id
    )
    assert not told.is_brief
    assert scene.statuses() == [AttemptStatus.IN_PROGRESS]

    scene.say(PhaseBegan(phase=Phase.BODY), PhaseOver(phase=Phase.BODY, seconds=1.0))
    scene.say(Decided(outcome=DONE))
    assert scene.statuses() == [AttemptStatus.COMPLETED]
    accepted = Reported(execution_id=told.execution_id, is_accepted=True)
    assert scene.play().hear() == accepted
    scene.say(CleanedUp())
    (end,) = (event for event in scene.events.heard if isinstance(event, AttemptEnded))
    assert end.outcome == DONE
    assert scene.directories.collected == []


def test_an_executor_sees_its_lease_and_shows_its_phase(scene: Scene) -> None:
    scene.run()
    cell = scene.supervisor._processes[0].cell
    assert cell.deadline == pytest.approx(scene.clock.elapsed() + LEASE)
    assert cell.phase is Phase.VALIDATE
    assert cell.poll_count == 1


def test_each_attempt_begins_in_the_first_phase(scene: Scene) -> None:
    scene.run()
    scene.enter(Phase.CLEANUP)
    scene.say(*OVER)
    scene.run()
    assert scene.supervisor._processes[0].phase is Phase.VALIDATE


def test_the_lease_is_kept_for_much_longer_than_it_is(scene: Scene) -> None:
    told = scene.run()
    for _ in range(int(3 * LEASE / BEAT)):
        scene.turn(after=BEAT)
        scene.turns()
    assert scene.statuses() == [AttemptStatus.IN_PROGRESS]
    assert set(scene.orchestrator.beats) == {told.polled.attempt.task_id}
    assert scene.supervisor._processes[0].cell.deadline == pytest.approx(
        scene.clock.elapsed() + LEASE
    )


def test_an_attempt_that_was_ended_elsewhere_is_told_so_and_killed(scene: Scene) -> None:
    workflow = scene.submit()
    scene.orchestrator.terminate(workflow, "enough")
    scene.turn(after=BEAT)
    scene.turns()
    assert scene.supervisor._processes[0].cell.deadline == LEASE_LOST
    process = scene.play().process
    assert process is not None
    scene.turn(after=2.0)
    process.join()
    scene.turn(after=0.25)
    scene.turns()
    assert scene.orchestrator.reports == [], "what was given up reports nothing"
    assert scene.statuses() == [AttemptStatus.CANCELED]


def test_a_silent_orchestrator_is_beaten_again(scene: Scene) -> None:
    scene.run()
    scene.orchestrator.is_silent = True
    scene.turn(after=BEAT)
    scene.turns()
    assert any(isinstance(event, HeartbeatFailed) for event in scene.events.heard)
    scene.orchestrator.is_silent = False
    scene.turn(after=BEAT)
    scene.turns()
    assert len(scene.orchestrator.beats) == 1


def test_progress_is_added_to_the_log_of_the_task(scene: Scene) -> None:
    told = scene.run()
    scene.say(BodyProgress(message="half", fraction=0.5))
    lines = scene.orchestrator.read_log(told.polled.attempt.task_id)
    assert [line.text for line in lines] == ["half"]


def test_a_completed_attempt_is_reported_after_its_commit_was_looked_up(scene: Scene) -> None:
    scene.run()
    scene.reason = "its output names the commit c0ffee, which is not there"
    scene.say(*OVER)
    failed = Failed(reason=scene.reason, phase=Phase.REPORT)
    assert [outcome for _, outcome in scene.orchestrator.reports] == [failed]
    assert scene.reason_of() == scene.reason


def test_a_store_that_is_away_for_longer_than_the_lease_costs_no_published_result(
    scene: Scene,
) -> None:
    scene.run()
    scene.store_is_away = True
    scene.say(Decided(outcome=DONE))
    for _ in range(int(3 * LEASE)):
        scene.turn(after=1.0)
    assert scene.statuses() == [AttemptStatus.IN_PROGRESS], "its lease is kept"
    scene.store_is_away = False
    scene.turn(after=LEASE / 12)
    assert scene.statuses() == [AttemptStatus.COMPLETED]


def test_a_stale_attempt_whose_report_must_wait_keeps_no_lease(scene: Scene) -> None:
    workflow = scene.run().polled.attempt.workflow_id
    scene.store_is_away = True
    scene.orchestrator.terminate(workflow, "enough")
    scene.orchestrator.beats.clear()
    scene.say(Decided(outcome=DONE))
    scene.turn(after=1.0)
    assert scene.orchestrator.beats == []


def test_a_failed_attempt_has_no_commit_to_look_up(scene: Scene) -> None:
    scene.run()
    scene.reason = "not there"
    failed = Failed(reason="it broke", phase=Phase.BODY)
    scene.say(Decided(outcome=failed), CleanedUp())
    assert [outcome for _, outcome in scene.orchestrator.reports] == [failed]


def test_a_report_that_is_not_heard_is_sent_again(scene: Scene) -> None:
    scene.run()
    scene.orchestrator.is_silent = True
    scene.say(*OVER)
    assert scene.statuses() == [AttemptStatus.IN_PROGRESS]
    scene.orchestrator.is_silent = False
    scene.turn(after=0.5)
    assert scene.statuses() == [AttemptStatus.COMPLETED]


def test_what_finds_no_slot_is_given_back(scene: Scene) -> None:
    scene.run()
    scene.say(Decided(outcome=DONE))
    scene.submit()
    assert scene.statuses() == [AttemptStatus.COMPLETED, AttemptStatus.IN_PROGRESS]
    assert [one.attempt.poll_count for one in scene.tasks()] == [1, 1]
    scene.turn(after=5.1)
    scene.turns()
    assert scene.statuses() == [AttemptStatus.COMPLETED, AttemptStatus.SCHEDULED]
    scene.say(CleanedUp())
    scene.turn(after=0.3)
    scene.turns()
    assert [one.attempt.poll_count for one in scene.tasks()] == [1, 2], "once the slot is free"


def test_an_executor_that_says_nothing_is_seen_where_it_is(scene: Scene) -> None:
    scene.run()
    scene.supervisor._processes[0].cell.enter(Phase.BODY)
    scene.turn(after=0.2)
    scene.turn()
    assert not any(isinstance(event, PhaseStarted) for event in scene.events.heard)
    scene.turn(after=0.05)
    scene.turn()
    phases = [event.phase for event in scene.events.heard if isinstance(event, PhaseStarted)]
    assert phases == [Phase.BODY]
    scene.supervisor._processes[0].cell.phase_number = 99
    scene.turn(after=0.25)
    scene.turn()


# -- what a body does


def test_junk_ends_its_executor_and_harms_no_other_attempt(make: MakeScene) -> None:
    scene = make(executors=2)
    scene.run(slot=0)
    scene.run(slot=1)
    process = scene.play(0).process
    assert process is not None
    scene.play(0).write(b"\x80\x04junk")
    scene.turns()
    process.join()
    scene.turn(after=0.25)
    scene.turns()
    assert scene.statuses() == [AttemptStatus.FAILED, AttemptStatus.IN_PROGRESS]
    assert "bytes that are no message of its executor" in scene.reason_of(0)

    scene.say(*OVER, slot=1)
    assert scene.statuses()[1] is AttemptStatus.COMPLETED
    assert len(scene.directories.collected) == 1


def test_an_executor_that_is_frozen_stops_nobody(make: MakeScene) -> None:
    scene = make(executors=2)
    scene.submit(text="x" * 3_000_000)
    assert scene.supervisor._processes[0].has_unsent
    scene.play(0).write(b"PRG1")  # and half a message
    other = scene.run(slot=1)
    for _ in range(12):
        scene.turn(after=BEAT)
    assert scene.orchestrator.beats.count(other.polled.attempt.task_id) == 12
    assert scene.statuses() == [AttemptStatus.IN_PROGRESS] * 2


def test_an_executor_that_takes_its_time_to_read_is_told_the_rest(scene: Scene) -> None:
    scene.submit(text="x" * 3_000_000)
    descriptor = scene.play().connection.fileno()
    os.set_blocking(descriptor, False)
    received = 0
    while scene.supervisor._processes[0].has_unsent:
        scene.supervisor._make_turn()
        try:
            received += len(os.read(descriptor, 1 << 20))
        except BlockingIOError:
            continue
    assert received > 2_000_000


def test_an_input_that_is_too_large_for_a_message_fails_its_attempt_by_name(
    make: MakeScene,
) -> None:
    scene = make(executors=2)
    scene.run(slot=0)
    process = scene.play(1).process
    assert process is not None
    scene.orchestrator.text_bytes = 17 << 20
    scene.submit()
    process.join()
    scene.turn(after=0.25)
    scene.turns()
    assert scene.statuses() == [AttemptStatus.IN_PROGRESS, AttemptStatus.FAILED]
    assert "cannot be handed to an executor: a message of" in scene.reason_of(1)


def test_a_connection_that_was_closed_ends_its_executor_after_a_moment(scene: Scene) -> None:
    scene.run()
    process = scene.play().process
    assert process is not None
    scene.play().close()
    scene.turns()
    for _ in range(3):
        scene.turn(after=0.25)
        assert not scene.supervisor._turn.slots[0].is_ending, "it may be ending by itself"
    scene.turn(after=0.5)
    scene.turn()
    process.join()
    scene.turn(after=0.25)
    scene.turns()
    assert "its connection was closed" in scene.reason_of()
    assert scene.supervisor._closed_at == {}


def test_an_executor_that_closed_its_connection_and_ended_just_ended(scene: Scene) -> None:
    scene.run()
    scene.play().close()
    scene.turns()
    scene.die()
    assert "killed by SIGKILL" in scene.reason_of()
    assert scene.supervisor._closed_at == {}


def test_a_log_that_grows_too_large_ends_its_attempt_by_name(make: MakeScene) -> None:
    scene = make(most_log_bytes=100)
    told = scene.run()
    process = scene.play().process
    assert process is not None
    told.log_path.parent.mkdir(parents=True)
    told.log_path.write_bytes(b"x" * 101)
    scene.turn(after=0.25)
    scene.turns()
    process.join()
    scene.turn(after=0.25)
    scene.turns()
    assert scene.statuses() == [AttemptStatus.FAILED]
    assert "the attempt's log has 101 bytes, and 100 are allowed" in scene.reason_of()


def test_processes_are_counted_in_the_group_of_the_executor(make: MakeScene) -> None:
    scene = make(most_processes=1)
    scene.run()
    scene.turn(after=1.0)
    scene.turns()
    assert scene.statuses() == [AttemptStatus.IN_PROGRESS]


# -- deaths


def test_a_death_before_publishing_is_reported_at_once(scene: Scene) -> None:
    told = scene.run()
    scene.enter(Phase.STAGE)
    scene.die()
    assert scene.statuses() == [AttemptStatus.FAILED]
    assert "died in phase stage: killed by SIGKILL (1 of 3)" in scene.reason_of()
    assert scene.directories.collected == [told.execution_id]


def test_what_a_dead_executor_left_in_its_logs_loses_its_secrets(scene: Scene) -> None:
    told = scene.run()
    scene.die()
    logs = scene.options.logs_directory
    log = attempt_log_path(logs, told.polled.attempt, told.execution_id)
    assert sorted(scene.redacted) == sorted([log, logs / "executor-0.log"])


def test_all_that_a_dead_executor_said_counts_however_much_it_was(scene: Scene) -> None:
    scene.run()
    scene.play().say(PhaseBegan(phase=Phase.STAGE), *[Moved(objects=1, size=1)] * 150)
    scene.play().say(PhaseBegan(phase=Phase.PUBLISH))
    scene.supervisor._processes[0].cell.phase_number = -1  # of no help
    scene.die()
    assert scene.statuses() == [AttemptStatus.IN_PROGRESS]
    # Until its publish call can no longer land.
    scene.orchestrator.heartbeat(scene.tasks()[0].attempt)
    scene.turn(after=LEASE - 1)
    scene.orchestrator.heartbeat(scene.tasks()[0].attempt)
    scene.turn(after=MERGE_SECONDS - LEASE + 1)
    assert scene.statuses() == [AttemptStatus.FAILED]


def test_where_shared_memory_says_that_it_was_it_was(scene: Scene) -> None:
    scene.run()
    scene.enter(Phase.STAGE)
    scene.supervisor._processes[0].cell.enter(Phase.POST_CHECK)
    scene.die()
    assert "died in phase post-check" in scene.reason_of()


def test_the_last_words_of_a_dead_executor_bring_it_no_work(make: MakeScene) -> None:
    scene = make(recycle_after_attempts=1)
    scene.run()
    scene.say(Decided(outcome=DONE))
    scene.submit()
    scene.play().say(CleanedUp())
    scene.die()
    assert scene.statuses() == [AttemptStatus.COMPLETED, AttemptStatus.SCHEDULED]
    assert scene.executor_deaths() == ["killed by SIGKILL"]


def test_a_directory_that_cannot_be_removed_is_left_to_the_next_start(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.run()
    scene.directories.error = OSError(errno.EACCES, "Permission denied")
    scene.die()
    assert scene.statuses() == [AttemptStatus.FAILED]
    assert "cannot remove the directory of a dead attempt" in caplog.text


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EMFILE, errno.ENOMEM])
def test_a_refused_process_start_kills_no_running_attempt(make: MakeScene, number: int) -> None:
    scene = make(executors=2)
    scene.run(slot=0)
    scene.executors.error = OSError(number, os.strerror(number))
    scene.die(slot=1)
    for _ in range(8):
        scene.turn(after=0.5)
    assert f"it could not be started: {os.strerror(number)}" in scene.executor_deaths()
    assert scene.statuses() == [AttemptStatus.IN_PROGRESS]

    scene.executors.error = None
    for _ in range(8):
        scene.turn(after=0.5)
    assert len(scene.supervisor._processes) == 2
    scene.say(*OVER, slot=0)
    assert scene.statuses() == [AttemptStatus.COMPLETED]


def test_a_refusal_without_words_is_told_all_the_same(scene: Scene) -> None:
    scene.executors.error = OSError("nothing more is known")
    scene.die()
    scene.turn(after=0.5)
    scene.turn()
    assert scene.executor_deaths()[-1] == "it could not be started: nothing more is known"


def test_an_executor_that_cannot_be_built_ends_the_worker(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.turn()
    scene.executors.last.say(Unfit(reason="no Java"))
    try:
        with pytest.raises(EnvironmentUnfitError, match="no Java"):
            scene.turns()
    finally:
        scene.close()


def test_an_executor_that_holds_too_much_memory_is_replaced(make: MakeScene) -> None:
    scene = make(recycle_above_bytes=1)
    first = scene.play().process
    scene.run()
    scene.say(Decided(outcome=DONE))
    assert isinstance(scene.play().hear(), Reported)
    scene.say(CleanedUp())
    assert scene.play().hear() == Stop()
    scene.die()
    assert scene.play().process is not first
    assert scene.executor_deaths() == []


# -- the end


def test_a_worker_that_is_done_ends_its_executors(scene: Scene) -> None:
    played = scene.play()
    process = played.process
    assert process is not None
    scene.clock.advance(1e6)  # the executor does not end by itself, and nobody waits for it

    class Impatient(FakeClock):
        def elapsed(self) -> float:
            elapsed = super().elapsed()
            self.advance(20.0)
            return elapsed

    scene.supervisor._clock = Impatient()
    scene.supervisor.run(lambda: True)
    assert played.hear() == Stop()
    assert not process.is_alive()
    assert scene.supervisor._processes == {}


def test_an_error_that_ends_the_loop_leaves_no_executor_running(scene: Scene) -> None:
    scene.run()
    process = scene.play().process
    assert process is not None

    def is_done() -> bool:
        raise KeyboardInterrupt

    scene.say(*OVER)
    scene.run()
    scene.supervisor._turn.is_finished = lambda *_: is_done()  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        scene.supervisor.run(is_done)
    assert not process.is_alive()


def test_a_stop_drains_and_a_second_one_hurries(scene: Scene) -> None:
    scene.run()
    process = scene.play().process
    assert process is not None
    before = scene.supervisor.is_stopping
    scene.supervisor.request_stop()
    assert (before, scene.supervisor.is_stopping) == (False, True)
    scene.submit()
    assert scene.statuses() == [AttemptStatus.IN_PROGRESS, AttemptStatus.SCHEDULED]
    assert process.is_alive()

    scene.supervisor.request_stop()
    scene.turns()
    process.join()
    scene.turn(after=0.25)
    scene.turns()
    assert scene.statuses() == [AttemptStatus.FAILED, AttemptStatus.SCHEDULED]
    assert "the worker was stopped" in scene.reason_of()


def test_a_stop_wakes_the_loop(scene: Scene) -> None:
    scene.turns()
    scene.supervisor.request_stop()
    ready = scene.supervisor._descriptors.wait(scene.supervisor._inbox.fileno(), [], 60.0)
    assert ready == {scene.supervisor._inbox.fileno()}


def test_what_an_earlier_worker_held_is_failed(scene: Scene) -> None:
    scene.orchestrator.start_workflow(step.name, workflow_input={"params": {}})
    (polled,) = scene.orchestrator.poll(
        [step.name], worker_id=WorkerId("dead"), count=1, wait_seconds=0
    )
    scene.supervisor.fail_for_dead_worker(polled.attempt)
    assert scene.supervisor.seconds_to_last_report == MERGE_SECONDS
    scene.turns()
    scene.turn(after=LEASE - 1)
    scene.orchestrator.heartbeat(polled.attempt)
    scene.turn(after=MERGE_SECONDS)
    assert scene.statuses()[0] in (AttemptStatus.FAILED, AttemptStatus.TIMED_OUT)


# -- what the loop waits for


class Wait:
    """Says how long the loop would have waited."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def wait(self, _inbox: int, _processes: object, seconds: float) -> set[int]:
        self.seconds.append(seconds)
        return set()


def test_the_loop_waits_until_something_is_due_and_not_when_something_was_heard(
    scene: Scene,
) -> None:
    scene.run()
    scene.turns()
    scene.supervisor._descriptors = cast(Any, wait := Wait())
    scene.supervisor._make_turn()
    scene.supervisor._inputs.append(Broken(slot=0, reason="its connection was closed"))
    scene.supervisor._make_turn()
    assert wait.seconds == pytest.approx([0.25, 0.0])


def test_an_answer_is_taken_from_the_inbox(scene: Scene) -> None:
    taken: list[bool] = []
    scene.supervisor._inbox.put(lambda: taken.append(True))
    scene.turn()
    assert taken == [True]


def test_words_and_deaths_end_the_wait(scene: Scene) -> None:
    process, played = scene.supervisor._processes[0], scene.play()
    wait, inbox = scene.supervisor._descriptors.wait, scene.supervisor._inbox.fileno()
    assert wait(inbox, [process], 0.0) == set()
    played.say(Ready())
    assert wait(inbox, [process], 60.0) == {process.pipe}
    process.read()
    played.die()
    assert wait(inbox, [process], 60.0) == {process.sentinel}


def test_calls_are_made_on_threads_unless_somebody_makes_them(scene: Scene) -> None:
    supervisor = Supervisor(
        scene.options,
        ports=SupervisorPorts(
            orchestrator=scene.orchestrator, directories=scene.directories, clock=scene.clock
        ),
        factory=no_kit,
        events=scene.events,
    )
    assert isinstance(supervisor._poll_calls, CallThreads)


def test_old_logs_are_removed_while_it_works(make: MakeScene) -> None:
    scene = make(keep_logs_days=1.0)
    make_logs_directory(scene.options.logs_directory)
    old = scene.options.logs_directory / "workflow" / "step.0.01234567.log"
    old.parent.mkdir()
    old.touch()
    os.utime(old, (0, 0))
    os.utime(old.parent, (0, 0))
    scene.turn(after=100_000.0)
    assert not old.exists()


# -- health


def test_a_worker_says_how_it_is(make: MakeScene) -> None:
    scene = make(executors=2)
    scene.supervisor.health = board = HealthBoard(scene.clock)
    scene.run()
    scene.die(slot=1)
    scene.turn()
    expected: JsonObject = {
        "executors": 2,
        "executors_alive": 1,
        "executors_ready": 1,
        "executors_busy": 1,
        "crash_looping": 0,
        "is_draining": False,
        "poll_error": None,
    }
    state = board.state
    assert isinstance(state, HealthState)
    assert {name: getattr(state, name) for name in expected} == expected
    assert state.turned_at == state.poller_turned_at == scene.clock.elapsed()
    assert state.answered_at is not None
    assert not scene.supervisor.is_out_of_work


def test_a_worker_that_looked_and_found_nothing_is_out_of_work(scene: Scene) -> None:
    scene.turn(after=1.0)
    scene.turns()
    assert scene.supervisor.is_out_of_work


def test_how_far_spark_is_costs_no_line_unless_there_is_one(scene: Scene) -> None:
    told = scene.run()
    scene.say(SparkIsAt(progress=SparkProgress(jobs=1), line=None))
    assert scene.orchestrator.read_log(told.polled.attempt.task_id) == []

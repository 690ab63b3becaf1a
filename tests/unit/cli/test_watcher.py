"""Following a run that workers elsewhere carry out."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from perago.cli.follower import RunFollower
from perago.cli.views import RunView
from perago.cli.watcher import RunWatcher
from perago.domain.attempt import Attempt, AttemptStatus
from perago.domain.errors import OrchestratorUnavailableError
from perago.domain.events import Event, Progressed
from perago.domain.ids import TaskId, WorkflowId
from perago.domain.workflow import LogLine, TaskState, WorkflowState, WorkflowStatus
from perago.ports import Orchestrator
from perago.testing import FakeClock
from tests.unit.cli.runs import BEGAN, RUN, run_of, state

DOWN = OrchestratorUnavailableError("nobody answers")
SCHEDULED, IN_PROGRESS = AttemptStatus.SCHEDULED, AttemptStatus.IN_PROGRESS
COMPLETED, FAILED = AttemptStatus.COMPLETED, AttemptStatus.FAILED


class RecordingView:
    """Writes down what it hears, but for what it is shown at every look."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def handle(self, event: Event) -> None:
        assert isinstance(event, Progressed)
        self.heard.append(f"progressed {event.attempt.task_id} {event.message}")

    def __getattr__(self, name: str) -> Callable[..., None]:
        def record(*arguments: object) -> None:
            if name != "observed":
                self.heard.append(" ".join([name, *filter(None, map(_name, arguments))]))

        return record


def _name(argument: object) -> str | None:
    match argument:
        case TaskState():
            return f"{argument.attempt.task_id} {argument.status}"
        case Attempt():
            return argument.task_id
        case str():
            return argument
        case _:
            return None


class ScriptedServer:
    """Answers `workflow` from a list, the last answer for ever."""

    def __init__(self, *answers: WorkflowState | Exception) -> None:
        self.answers = list(answers)
        self.logs: dict[str, list[str]] = {}
        self.calls = 0

    def workflow(self, workflow_id: WorkflowId) -> WorkflowState:
        assert workflow_id == RUN
        self.calls += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def read_log(self, task_id: TaskId) -> list[LogLine]:
        return [LogLine(at=BEGAN, text=text) for text in self.logs.get(task_id, [])]


class InterruptedServer(ScriptedServer):
    """Somebody presses Ctrl-C while it is asked."""

    def workflow(self, workflow_id: WorkflowId) -> WorkflowState:
        raise KeyboardInterrupt


@pytest.fixture
def view() -> RecordingView:
    return RecordingView()


def watcher_of(
    view: RecordingView, server: ScriptedServer, clock: FakeClock | None = None
) -> RunWatcher:
    shown, orchestrator = cast(RunView, view), cast(Orchestrator, server)
    return RunWatcher(
        shown,
        RunFollower(shown, orchestrator, lambda run, step: f"complete {run} {step}"),
        orchestrator=orchestrator,
        clock=clock or FakeClock(),
        how_to_start=lambda name: f"start {name}",
    )


def over(*tasks: TaskState, status: WorkflowStatus = WorkflowStatus.COMPLETED) -> WorkflowState:
    return run_of(*tasks, status=status)


def test_every_attempt_is_told_once_however_often_it_is_seen(view: RecordingView) -> None:
    running = run_of(state(status=IN_PROGRESS))
    retrying = run_of(state(status=FAILED, reason="no"), state(status=SCHEDULED, retry=1))
    again = run_of(state(status=FAILED, reason="no"), state(status=IN_PROGRESS, retry=1))
    end = over(state(status=FAILED, reason="no"), state(status=COMPLETED, retry=1))
    server = ScriptedServer(running, running, retrying, again, again, end)

    ended = watcher_of(view, server).watch(run_of(state(status=SCHEDULED)))

    assert ended == end
    assert view.heard == [
        "attempt_seen clean-0 IN_PROGRESS",
        "attempt_over clean-0 FAILED",
        "attempt_seen clean-1 IN_PROGRESS",
        "attempt_over clean-1 COMPLETED",
    ]


def test_an_attempt_that_began_and_ended_between_two_looks_is_told_whole(
    view: RecordingView,
) -> None:
    server = ScriptedServer(over(state()))
    server.logs["clean-0"] = ["half-way", "nearly"]

    watcher_of(view, server).watch(run_of())

    assert view.heard == [
        "attempt_seen clean-0 COMPLETED",
        "progressed clean-0 half-way",
        "progressed clean-0 nearly",
        "attempt_over clean-0 COMPLETED",
    ]


def test_only_new_lines_of_a_log_are_told(view: RecordingView) -> None:
    running = run_of(state(status=IN_PROGRESS))
    server = ScriptedServer(over(state()))
    watcher = watcher_of(view, server)
    server.logs["clean-0"] = ["one"]
    watcher.look(running)
    server.logs["clean-0"] = ["one", "two"]
    watcher.look(running)

    assert [heard for heard in view.heard if heard.startswith("progressed")] == [
        "progressed clean-0 one",
        "progressed clean-0 two",
    ]


def test_of_a_run_that_is_followed_again_the_past_is_not_told(view: RecordingView) -> None:
    before = run_of(state("raw"), state("clean", IN_PROGRESS))
    end = over(state("raw"), state("clean"))

    watcher_of(view, ScriptedServer(end)).watch(before, continued=True)

    assert view.heard == ["attempt_seen clean-0 IN_PROGRESS", "attempt_over clean-0 COMPLETED"]


def test_a_server_that_does_not_answer_is_said_once_and_waited_for(view: RecordingView) -> None:
    end = over(state())
    server = ScriptedServer(DOWN, DOWN, DOWN, end)

    ended = watcher_of(view, server).watch(run_of())

    assert ended == end
    assert [heard for heard in view.heard if heard.startswith("warn")] == [
        "warn nobody answers; the run goes on meanwhile"
    ]


def test_looks_become_rarer_while_nothing_happens(view: RecordingView) -> None:
    quiet = run_of(state(status=IN_PROGRESS))
    server, clock = ScriptedServer(*[quiet] * 30, over(state())), FakeClock()
    before = clock.elapsed()

    watcher_of(view, server, clock).watch(quiet)

    assert server.calls == 31
    assert clock.elapsed() - before > 40, "two seconds apart, most of them"


def test_a_step_that_no_worker_takes_is_told_once_with_what_to_do(view: RecordingView) -> None:
    waiting = run_of(state(status=SCHEDULED))
    server = ScriptedServer(*[waiting] * 40, over(state()))

    watcher_of(view, server).watch(waiting)

    [warning] = [heard for heard in view.heard if heard.startswith("warn")]
    assert "clean has waited 1" in warning
    assert warning.endswith("start clean")


@pytest.mark.parametrize(
    "tasks",
    [
        (state("raw", IN_PROGRESS), state(status=SCHEDULED)),
        (state(status=FAILED), state(status=SCHEDULED, retry=1)),
        (state(status=SCHEDULED, kind="JOIN"),),
    ],
)
def test_a_busy_worker_a_retry_and_a_join_are_not_taken_for_a_missing_worker(
    view: RecordingView, tasks: tuple[TaskState, ...]
) -> None:
    waiting = run_of(*tasks)
    server = ScriptedServer(*[waiting] * 40, over())

    watcher_of(view, server).watch(waiting)

    assert [heard for heard in view.heard if heard.startswith("warn")] == []


def test_a_step_that_was_cancelled_before_anybody_took_it_never_began(view: RecordingView) -> None:
    never = replace(state(status=AttemptStatus.CANCELED), started_at=None)
    server = ScriptedServer(over(never, status=WorkflowStatus.TERMINATED))

    watcher_of(view, server).watch(run_of(state(status=SCHEDULED)))

    assert view.heard == ["attempt_over clean-0 CANCELED"]


def test_a_person_is_told_how_to_complete_a_step(view: RecordingView) -> None:
    waits = run_of(state("approve", IN_PROGRESS, kind="HUMAN"))
    server = ScriptedServer(waits, over(state("approve", kind="HUMAN")))

    watcher_of(view, server).watch(waits)

    assert view.heard == [f"step_waits approve-0 IN_PROGRESS complete {RUN} approve"]


def test_what_was_seen_last_is_kept_for_whoever_stops_watching(view: RecordingView) -> None:
    running = run_of(state(status=IN_PROGRESS))
    watcher = watcher_of(view, InterruptedServer(running))
    with pytest.raises(KeyboardInterrupt):
        watcher.watch(running)

    assert watcher.last == running

from collections.abc import Callable
from typing import cast

import pytest

from perago.cli.follower import RunFollower
from perago.cli.views import RunView
from perago.domain.attempt import AttemptStatus
from perago.domain.errors import OrchestratorUnavailableError
from perago.domain.events import Event, ExecutorDied, Polled, PollFailed
from perago.domain.ids import WorkflowId
from perago.domain.workflow import TaskState, WorkflowState, WorkflowStatus
from perago.ports import Orchestrator
from tests.unit.cli.runs import RUN, attempt, execution, run_of, state
from tests.unit.runtime.told_attempt import every_event_of

IDLE_DEATH = ExecutorDied(attempt=None, phase=None, how="exit")


class RecordingView:
    """Writes down what it hears, whatever it is."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.events: list[Event] = []

    def handle(self, event: Event) -> None:
        self.events.append(event)

    def __getattr__(self, name: str) -> Callable[..., None]:
        def record(*arguments: object, **_options: object) -> None:
            shown = [argument for argument in arguments if isinstance(argument, str)]
            self.heard.append(" ".join([name, *shown]))

        return record


class ScriptedOrchestrator:
    """Answers `workflow` from a list, the last answer for ever."""

    def __init__(self, *answers: WorkflowState | Exception) -> None:
        self._answers = list(answers)

    def workflow(self, workflow_id: WorkflowId) -> WorkflowState:
        assert workflow_id == RUN
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def view() -> RecordingView:
    return RecordingView()


def follower_of(view: RecordingView, *answers: WorkflowState | Exception) -> RunFollower:
    orchestrator = cast(Orchestrator, ScriptedOrchestrator(*answers))
    return RunFollower(
        cast(RunView, view), orchestrator, lambda run, step: f"complete {run} {step}"
    )


def test_events_of_the_run_are_passed_on(view: RecordingView) -> None:
    events = every_event_of(execution())
    follower = follower_of(view, run_of())
    follower.follow(run_of())
    for event in [*events, IDLE_DEATH, Polled(tasks=1), PollFailed(reason="no answer")]:
        follower.handle(event)

    assert view.events == [*events, IDLE_DEATH]
    assert view.heard == ["observed"]


def test_another_run_is_mentioned_once_and_then_left_out(view: RecordingView) -> None:
    other = execution(run=WorkflowId("other"))
    follower = follower_of(view, run_of())
    follower.follow(run_of())
    view.heard.clear()
    for event in every_event_of(other) * 2:
        follower.handle(event)

    assert view.events == []
    assert view.heard == ["warn this worker also serves the unfinished run other"]


def test_a_step_that_waits_is_announced_once(view: RecordingView) -> None:
    def waiting(kind: str) -> TaskState:
        return state(kind.lower(), AttemptStatus.IN_PROGRESS, kind=kind)

    run = run_of(waiting("HUMAN"), waiting("WAIT"), waiting("SIMPLE"))
    follower = follower_of(view, run)
    follower.follow(run)

    assert not follower.is_done()
    assert [line for line in view.heard if line.startswith("step_waits")] == [
        f"step_waits complete {RUN} human",
        "step_waits",
    ]


def test_done_is_what_the_orchestrator_says(view: RecordingView) -> None:
    follower = follower_of(view, run_of(), run_of(status=WorkflowStatus.COMPLETED))
    follower.follow(run_of())

    assert [follower.is_done(), follower.is_done()] == [False, True]


def test_an_orchestrator_that_does_not_answer_ends_nothing(view: RecordingView) -> None:
    follower = follower_of(view, OrchestratorUnavailableError("locked"), run_of())
    follower.follow(run_of())

    assert not follower.is_done()
    assert "warn locked" in view.heard


def test_a_death_is_told_to_whoever_asked(view: RecordingView) -> None:
    deaths: list[str] = []
    orchestrator = cast(Orchestrator, ScriptedOrchestrator(run_of()))
    follower = RunFollower(
        cast(RunView, view), orchestrator, lambda run, step: "", on_death=deaths.append
    )
    follower.follow(run_of())
    for dead in (attempt(), None, attempt(run=WorkflowId("other"))):
        follower.handle(ExecutorDied(attempt=dead, phase=None, how="exit"))

    assert deaths == ["clean"]

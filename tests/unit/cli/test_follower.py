from collections.abc import Callable
from typing import cast

import pytest

from perago.cli.follower import RunFollower
from perago.cli.views import RunView
from perago.domain.attempt import Attempt, AttemptStatus
from perago.domain.errors import OrchestratorUnavailableError
from perago.domain.ids import WorkflowId
from perago.domain.outcome import Completed, Phase
from perago.domain.spark_progress import SparkProgress
from perago.domain.workflow import TaskState, WorkflowState, WorkflowStatus
from perago.ports import Orchestrator
from tests.unit.cli.runs import RUN, attempt, run_of, state


class RecordingView:
    """Writes down what it hears, whatever it is."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        def record(*arguments: object, **_options: object) -> None:
            shown = [
                argument.reference_name if isinstance(argument, Attempt) else argument
                for argument in arguments
                if isinstance(argument, Attempt | str)
            ]
            self.heard.append(" ".join([name, *map(str, shown)]))

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
    follower = follower_of(view, run_of())
    follower.follow(run_of())
    follower.attempt_started(attempt())
    follower.phase_started(attempt(), Phase.BODY)
    follower.phase_ended(attempt(), Phase.BODY, 1)
    follower.transferred(attempt(), 1, 2)
    follower.progressed(attempt(), "half", None)
    follower.spark_progressed(attempt(), SparkProgress(jobs=1), "Spark: 1 job")
    follower.attempt_ended(attempt(), Completed(output={}))
    follower.executor_died(attempt(), "SIGKILL")
    follower.executor_died(None, "exit")

    assert view.heard == [
        "observed",
        "attempt_started clean",
        "phase_started clean body",
        "phase_ended clean body",
        "transferred clean",
        "progressed clean half",
        "spark_progressed clean Spark: 1 job",
        "attempt_ended clean",
        "executor_died clean SIGKILL",
        "executor_died exit",
    ]


def test_another_run_is_mentioned_once_and_then_left_out(view: RecordingView) -> None:
    other = attempt(run=WorkflowId("other"))
    follower = follower_of(view, run_of())
    follower.follow(run_of())
    view.heard.clear()
    for _ in range(2):
        follower.attempt_started(other)
        follower.phase_started(other, Phase.BODY)
        follower.phase_ended(other, Phase.BODY, 1)
        follower.transferred(other, 1, 2)
        follower.progressed(other, "half", None)
        follower.spark_progressed(other, SparkProgress(jobs=1), "Spark: 1 job")
        follower.attempt_ended(other, None)
        follower.executor_died(other, "SIGKILL")

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
    follower.executor_died(attempt(), "SIGKILL")
    follower.executor_died(None, "exit")
    follower.executor_died(attempt(run=WorkflowId("other")), "exit")

    assert deaths == ["clean"]

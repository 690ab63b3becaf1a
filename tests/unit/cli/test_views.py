import json
import re
from io import StringIO

import pytest
from rich.console import Console

from perago.bootstrap import StoreInForce
from perago.cli.board import Board, StepLine, StepStatus
from perago.cli.lines import JsonView, PlainView
from perago.cli.live import LiveView, describe_transfer, describe_work
from perago.cli.output import Output
from perago.cli.speed import Moved
from perago.cli.views import RunHeader, RunView
from perago.domain.attempt import AttemptStatus
from perago.domain.events import ExecutorDied
from perago.domain.outcome import Completed, Failed, Phase
from perago.domain.spark_progress import SparkProgress, SparkStage
from perago.ports import Fencing
from perago.testing import FakeClock
from tests.unit.cli.runs import execution, run_of, state
from tests.unit.runtime.told_attempt import ToldAttempt

HEADER = RunHeader(
    workflow=run_of(),
    continued=False,
    workspace=("flights@main", "0123456789abcdef"),
    store=StoreInForce(kind="lakefs", place="http://lake:8000", fencing=Fencing.SOFT),
)
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COUNTING = SparkProgress(
    jobs=1, stages=2, active=(SparkStage(name="count at clean.py:41", tasks=40, tasks_done=12),)
)
COUNTED = SparkProgress(jobs=1, stages=2, stages_done=2, tasks_done=41)
WAITING = state("approve", AttemptStatus.IN_PROGRESS, kind="HUMAN")


def tell_a_story(view: RunView, clock: FakeClock) -> None:
    """A run with everything: a failure, a death, a retry, a person."""
    with view:
        view.run_began(HEADER)
        first, second, third = (ToldAttempt(view, execution(retry=n), clock) for n in range(3))
        first.start()
        first.enter(Phase.BODY)
        first.say("reading", 0.25)
        first.say_spark(COUNTING, None)
        first.say_spark(COUNTED, COUNTED.describe_total())
        first.move(2, 3_000)
        first.leave(1.5)
        clock.advance(2)
        first.end(Failed(reason="ValueError: no", phase=Phase.BODY))
        second.start()
        clock.advance(0.5)
        second.die("killed by SIGKILL")
        second.end(None)
        third.start()
        third.move(1, 10)
        clock.advance(1)
        third.end(Completed(output={"result": {}}))
        view.step_waits(WAITING, "perago complete 11111111 approve")
        view.handle(ExecutorDied(attempt=None, phase=None, how="exit code 1"))
        view.warn("cannot poll")
        view.observed(run_of(state(retry=2), WAITING))


def test_plain_lines_tell_every_event(capfd: pytest.CaptureFixture[str]) -> None:
    clock = FakeClock()

    tell_a_story(PlainView(Output(), clock.now), clock)

    said = capfd.readouterr()
    lines = [line.partition(" ")[2] for line in said.out.splitlines()]
    assert lines == [
        "run 11111111-aaaa: flights v2 on flights@main from 0123456789ab",
        "store: lakefs at http://lake:8000, soft fence",
        "clean: started",
        "clean: reading (25%)",
        "clean: Spark: 1 job, 2 stages, 41 tasks",
        "clean: body moved 2 objects, 3.0 kB in 1.50 s (1.3 objects/s, 2.0 kB/s)",
        "clean: failed in body after 2.00 s: ValueError: no",
        "clean: started again (retry 1)",
        "an executor died in clean: killed by SIGKILL",
        "clean: given up after 0.50 s",
        "clean: started again (retry 2)",
        "clean: completed in 1.00 s, 1 object, 10 B",
        "approve: waits for a person; complete it with `perago complete 11111111 approve`",
        "an executor died: exit code 1",
    ]
    assert said.err == "warning: cannot poll\n"


def test_json_lines_tell_every_event(capfd: pytest.CaptureFixture[str]) -> None:
    clock = FakeClock()

    tell_a_story(JsonView(Output(as_json=True), clock.now), clock)

    said = capfd.readouterr()
    events = [json.loads(line) for line in said.out.splitlines()]
    assert said.err == ""
    assert [event["event"] for event in events] == [
        "run_began",
        "step_started",
        "progress",
        "spark_progress",
        "spark_progress",
        "transferred",
        "phase_ended",
        "step_failed",
        "step_started",
        "executor_died",
        "step_given_up",
        "step_started",
        "transferred",
        "step_completed",
        "step_waits",
        "executor_died",
        "warning",
    ]
    assert {event["run"] for event in events} == {"11111111-aaaa"}
    assert events[0]["store"] == {
        "kind": "lakefs",
        "place": "http://lake:8000",
        "fencing": "soft",
    }
    assert events[3] | {"at": None, "run": None} == {
        "event": "spark_progress",
        "at": None,
        "run": None,
        "step": "clean",
        "retry": 0,
        "jobs": 1,
        "stages": 2,
        "stages_done": 0,
        "tasks_done": 0,
        "tasks_failed": 0,
        "active": [{"name": "count at clean.py:41", "tasks": 40, "tasks_done": 12}],
    }
    assert (events[6]["objects"], events[6]["bytes_per_second"]) == (2, 2000)
    assert events[7]["reason"] == "ValueError: no"
    assert (events[8]["step"], events[8]["retry"]) == ("clean", 1)
    assert events[14]["complete_with"] == "perago complete 11111111 approve"


def test_a_terminal_shows_how_far_spark_is_while_the_body_runs() -> None:
    clock = FakeClock()
    board = Board([StepLine(reference="clean")], clock.elapsed)
    view = LiveView(Console(file=StringIO()), board)
    told = ToldAttempt(view, execution(), clock)
    told.start()
    told.enter(Phase.BODY)
    told.say("cleaning")

    told.say_spark(COUNTING, None)

    assert (
        describe_work(board.line("clean"))
        == "body  cleaning  Spark stage 1 of 2 (count at clean.py:41), 12/40 tasks"
    )
    told.enter(Phase.POST_CHECK)
    assert describe_work(board.line("clean")) == f"{Phase.POST_CHECK}  cleaning"


def test_a_terminal_gets_one_line_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    clock, screen = FakeClock(), StringIO()
    console = Console(file=screen, force_terminal=True, width=100, color_system=None)
    board = Board([StepLine(reference="clean"), StepLine(reference="join")], clock.elapsed)

    tell_a_story(LiveView(console, board), clock)

    text = screen.getvalue()
    assert "run 11111111  flights v2  on flights@main from 0123456789ab" in text
    assert "store: lakefs at http://lake:8000, soft fence" in text
    assert "an executor died in clean: killed by SIGKILL" in text
    assert "perago complete 11111111 approve" in text
    assert "warning: cannot poll" in text
    last_frame = CONTROL.sub("", text[text.rindex("✓") :])
    assert last_frame.split() == [
        *("✓", "clean", "1", "object,", "10", "B", "3.50", "s", "retry", "2"),
        *("·", "join"),
        *("◆", "approve", "waits", "for", "a", "person"),
    ]


@pytest.mark.parametrize("view_class", [PlainView, JsonView])
def test_a_signal_is_answered_on_stderr(
    capfd: pytest.CaptureFixture[str], view_class: type[PlainView] | type[JsonView]
) -> None:
    clock = FakeClock()
    view: RunView
    if view_class is PlainView:
        view = PlainView(Output(), clock.now)
    else:
        view = JsonView(Output(as_json=True), clock.now)

    view.stop_requested(hurry=False)
    view.stop_requested(hurry=True)

    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "stopping: running attempts may finish; Ctrl-C again gives them up",
        "stopping now: running attempts are given up",
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (StepLine(reference="a"), ""),
        (StepLine(reference="a", status=StepStatus.RUNNING), "starting"),
        (
            StepLine(
                reference="a",
                status=StepStatus.RUNNING,
                phase=Phase.BODY,
                message="rows",
                fraction=0.5,
            ),
            "body  rows 50%",
        ),
        (StepLine(reference="a", status=StepStatus.FAILED, message="no\nmore"), "no"),
        (StepLine(reference="a", status=StepStatus.WAITING, kind="WAIT"), "waits"),
        (StepLine(reference="a", status=StepStatus.RETRYING), "is tried again soon"),
    ],
)
def test_a_step_says_what_it_does(line: StepLine, words: str) -> None:
    assert describe_work(line) == words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (StepLine(reference="a"), ""),
        (
            StepLine(
                reference="a",
                status=StepStatus.RUNNING,
                phase=Phase.DOWNLOAD,
                moved=Moved(objects=30, size=4_000_000),
                moved_in_phase=Moved(objects=20, size=3_000_000, seconds=2),
            ),
            "20 objects, 3.0 MB, 10 objects/s, 1.5 MB/s",
        ),
        (
            StepLine(
                reference="a",
                status=StepStatus.RUNNING,
                phase=Phase.BODY,
                moved=Moved(objects=30, size=4_000_000),
                moved_in_phase=Moved(seconds=2),
            ),
            "30 objects, 4.0 MB",
        ),
        (
            StepLine(
                reference="a",
                status=StepStatus.COMPLETED,
                moved=Moved(objects=1, size=10),
                moved_in_phase=Moved(objects=1, size=10, seconds=2),
            ),
            "1 object, 10 B",
        ),
    ],
)
def test_a_step_says_what_it_moves_and_how_fast(line: StepLine, words: str) -> None:
    assert describe_transfer(line) == words

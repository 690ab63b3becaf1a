import pytest

from perago.cli.board import Board, StepLine, StepStatus, plan_lines
from perago.cli.speed import Moved
from perago.domain.attempt import AttemptStatus
from perago.domain.outcome import Completed, Failed, Phase, TerminalFailure
from perago.testing import FakeClock
from tests.unit.cli.runs import attempt, run_of, state


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def board(clock: FakeClock) -> Board:
    return Board([StepLine(reference="clean"), StepLine(reference="join")], clock.elapsed)


def test_the_steps_of_a_definition_are_planned_in_order_without_forks() -> None:
    def simple(name: str) -> dict[str, object]:
        return {"taskReferenceName": name, "type": "SIMPLE", "name": name}

    definition = {
        "tasks": [
            simple("a"),
            {
                "taskReferenceName": "fork",
                "type": "FORK_JOIN",
                "forkTasks": [[simple("b"), simple("c")], [simple("d")]],
            },
            {"taskReferenceName": "join", "type": "JOIN"},
            {"taskReferenceName": "ask", "type": "HUMAN", "name": "ask"},
        ]
    }

    lines = plan_lines(definition)  # type: ignore[arg-type] # JSON by construction

    assert [(line.reference, line.kind) for line in lines] == [
        ("a", "SIMPLE"),
        ("b", "SIMPLE"),
        ("c", "SIMPLE"),
        ("d", "SIMPLE"),
        ("ask", "HUMAN"),
    ]


def test_a_step_goes_from_pending_over_running_to_completed(board: Board, clock: FakeClock) -> None:
    assert board.line("clean").status is StepStatus.PENDING
    board.start(attempt())
    board.enter(attempt(), Phase.DOWNLOAD)
    board.move(attempt(), 2, 10)
    board.move(attempt(), 1, 5)
    board.tell(attempt(), "half", 0.5)
    clock.advance(4)
    running = board.line("clean")
    board.end(attempt(), Completed(output={}))
    clock.advance(10)
    done = board.line("clean")

    assert (running.status, running.phase) == (StepStatus.RUNNING, Phase.DOWNLOAD)
    assert running.moved == Moved(objects=3, size=15)
    assert running.moved_in_phase == Moved(objects=3, size=15, seconds=4)
    assert running.seconds == 4
    assert (running.message, running.fraction) == ("half", 0.5)
    assert (done.status, done.seconds, done.message) == (StepStatus.COMPLETED, 4, "")
    assert [line.reference for line in board.lines()] == ["clean", "join"]


def test_a_phase_has_a_speed_of_its_own(board: Board, clock: FakeClock) -> None:
    board.start(attempt())
    board.enter(attempt(), Phase.DOWNLOAD)
    board.move(attempt(), 4, 100)
    board.enter(attempt(), Phase.STAGE)
    clock.advance(1)
    board.move(attempt(), 1, 10)
    line = board.line("clean")

    assert line.moved_in_phase == Moved(objects=1, size=10, seconds=1)
    assert line.moved == Moved(objects=5, size=110)


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (Failed(reason="no", phase=Phase.BODY), "no"),
        (TerminalFailure(reason="never", phase=Phase.BODY), "never"),
        (None, "given up"),
    ],
)
def test_a_failed_attempt_says_why(
    board: Board, outcome: Failed | TerminalFailure | None, message: str
) -> None:
    board.start(attempt())
    board.end(attempt(), outcome)

    assert (board.line("clean").status, board.line("clean").message) == (
        StepStatus.FAILED,
        message,
    )


def test_a_retry_starts_clean_and_its_time_goes_on(board: Board, clock: FakeClock) -> None:
    board.start(attempt())
    board.move(attempt(), 2, 10)
    clock.advance(3)
    board.end(attempt(), Failed(reason="no", phase=Phase.BODY))
    clock.advance(2)
    board.start(attempt(retry=1))
    clock.advance(1)

    line = board.line("clean")
    assert (line.status, line.retries, line.message) == (StepStatus.RUNNING, 1, "")
    assert line.moved == Moved()
    assert line.seconds == 6
    board.end(attempt(retry=1), None)
    assert board.line("clean").seconds == 6


@pytest.mark.parametrize(
    ("task", "status"),
    [
        (state(status=AttemptStatus.SCHEDULED), StepStatus.PENDING),
        (state(status=AttemptStatus.SCHEDULED, retry=1), StepStatus.RETRYING),
        (state(status=AttemptStatus.IN_PROGRESS), StepStatus.RUNNING),
        (state(status=AttemptStatus.IN_PROGRESS, kind="HUMAN"), StepStatus.WAITING),
        (state(status=AttemptStatus.IN_PROGRESS, kind="WAIT"), StepStatus.WAITING),
        (state(status=AttemptStatus.COMPLETED), StepStatus.COMPLETED),
        (state(status=AttemptStatus.TIMED_OUT), StepStatus.FAILED),
        (state(status=AttemptStatus.CANCELED), StepStatus.CANCELLED),
    ],
)
def test_the_orchestrator_has_the_last_word(board: Board, task: object, status: StepStatus) -> None:
    board.start(attempt())
    board.end(attempt(), Completed(output={}))
    board.observe(run_of(task))  # type: ignore[arg-type] # parametrised

    assert board.line("clean").status is status


def test_of_several_attempts_the_last_counts(board: Board) -> None:
    board.observe(
        run_of(
            state(status=AttemptStatus.FAILED, reason="no"),
            state(status=AttemptStatus.COMPLETED, retry=1),
        )
    )

    line = board.line("clean")
    assert (line.status, line.retries, line.seconds) == (StepStatus.COMPLETED, 1, 3)


def test_a_step_that_was_over_before_shows_the_orchestrators_reason(board: Board) -> None:
    board.observe(run_of(state(status=AttemptStatus.FAILED, reason="disk")))

    assert board.line("clean").message == "disk"


def test_forks_and_joins_are_no_lines(board: Board) -> None:
    board.observe(run_of(state("fork_1", kind="FORK_JOIN"), state("join_1", kind="JOIN")))

    assert [line.reference for line in board.lines()] == ["clean", "join"]

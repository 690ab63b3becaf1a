"""The tally of an attempt."""

from __future__ import annotations

import pytest

from perago.domain.attempt import Attempt
from perago.domain.events import AttemptEnded, AttemptStarted, AttemptTally
from perago.domain.execution import Execution
from perago.domain.ids import ExecutionId, TaskId, WorkflowId
from perago.domain.outcome import Completed, Direction, Failed, Outcome, Phase, TerminalFailure

EXECUTION = Execution(
    attempt=Attempt(
        workflow_id=WorkflowId("w"), task_id=TaskId("t"), task_name="task", reference_name="ref"
    ),
    execution_id=ExecutionId("0" * 32),
    input_ref=None,
    staging_branch=None,
)


@pytest.fixture
def tally() -> AttemptTally:
    return AttemptTally(execution=EXECUTION)


def test_a_new_tally_is_in_validate_and_cost_nothing(tally: AttemptTally) -> None:
    assert tally.phase is Phase.VALIDATE
    assert tally.phases == {}
    assert tally.objects == tally.size == {Direction.DOWN: 0, Direction.UP: 0}
    assert tally.changes is None


def test_a_phase_that_is_entered_twice_adds_up(tally: AttemptTally) -> None:
    tally.leave(Phase.PREPARE, 1.5)
    tally.leave(Phase.PRE_CHECK, 4.0)
    tally.leave(Phase.PREPARE, 2.0)

    assert tally.phases == {Phase.PREPARE: 3.5, Phase.PRE_CHECK: 4.0}


def test_transfers_add_up_in_the_direction_of_their_phase(tally: AttemptTally) -> None:
    tally.phase = Phase.DOWNLOAD
    assert tally.move(3, 300) is Direction.DOWN
    assert tally.move(1, 50) is Direction.DOWN
    tally.phase = Phase.STAGE
    assert tally.move(2, 20) is Direction.UP

    assert tally.objects == {Direction.DOWN: 4, Direction.UP: 2}
    assert tally.size == {Direction.DOWN: 350, Direction.UP: 20}


def test_a_start_knows_its_attempt() -> None:
    assert AttemptStarted(execution=EXECUTION).attempt is EXECUTION.attempt


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Completed(output={}), "COMPLETED"),
        (Failed(reason="no", phase=Phase.BODY), "FAILED"),
        (TerminalFailure(reason="no", phase=Phase.BODY), "FAILED_WITH_TERMINAL_ERROR"),
        (None, "GIVEN_UP"),
    ],
)
def test_an_end_has_a_status_also_without_an_outcome(
    tally: AttemptTally, outcome: Outcome | None, status: str
) -> None:
    end = AttemptEnded(attempt=EXECUTION.attempt, outcome=outcome, tally=tally, seconds=1.0)

    assert end.status == status
